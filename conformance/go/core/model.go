// Package core has the cases that every client in Go runs, and the values of A2A in terms that the SDK for 1.0 and the
// SDK for 0.3 share. Each client program translates the types of its SDK into these, and does nothing else with them.
package core

import (
	"context"
	"iter"
)

// Part is one part of a message or an artifact. Kind is text, raw, url or data; only the member of that kind is set.
type Part struct {
	Kind, Text, URL, Name, MediaType string
	Raw                              []byte
	Data                             map[string]any
}

// Message is what a caller or an agent says.
type Message struct {
	ID, Task, Context, Role string
	Parts                   []Part
}

// Artifact is what an agent made.
type Artifact struct {
	ID, Name string
	Parts    []Part
}

// Status is the state of a task, as 0.3 spells it, and the message that came with it.
type Status struct {
	State   string
	Message *Message
}

// Task is a task as the SDK shows it.
type Task struct {
	ID, Context string
	Status      Status
	Artifacts   []Artifact
	History     []Message
}

// Event is one event of a stream. Kind is task, message, status-update or artifact-update.
type Event struct {
	Kind, Task, Context string
	Snapshot            *Task
	Message             *Message
	Status              *Status
	Artifact            *Artifact
	Append, LastChunk   bool
	// Final is nil where the SDK has no such member.
	Final *bool
}

// Card is what a client reads of an agent's card.
type Card struct {
	Name, Description, Version string
	Streaming, Push            bool
}

// Client is one client of an SDK over one binding.
type Client interface {
	Card() Card
	Send(ctx context.Context, message Message, wait bool) (Event, error)
	Stream(ctx context.Context, message Message) iter.Seq2[Event, error]
	Get(ctx context.Context, task string, history *int) (*Task, error)
	Cancel(ctx context.Context, task string) (*Task, error)
	Subscribe(ctx context.Context, task string) iter.Seq2[Event, error]
	// ExtendedCard asks for the extended card, although the card of the agent declares none.
	ExtendedCard(ctx context.Context) (Card, error)
	SetHook(ctx context.Context, task, id, url string) (string, error)
	Hooks(ctx context.Context, task string) ([]string, error)
	DeleteHook(ctx context.Context, task, id string) error
	// ErrorName is the name of the error of the SDK that this error is, or the empty string.
	ErrorName(err error) string
}

// Dial makes a client for a base URL over a binding, from the card alone.
type Dial func(ctx context.Context, base, binding string) (Client, error)
