// Drives an A2A server with the last Go SDK for 0.3 and reports, case by case, whether it kept its promises.
//
//	client-0.3 [-binding GRPC] [-case stream] BASE_URL
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"

	"conformance/core"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"github.com/a2aproject/a2a-go/a2aclient/agentcard"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// The SDK has no transport for HTTP+JSON.
func main() { core.Main([]string{"JSONRPC", "GRPC"}, dial) }

func dial(ctx context.Context, base, binding string) (core.Client, error) {
	card, err := agentcard.DefaultResolver.Resolve(ctx, base)
	if err != nil {
		return nil, err
	}
	preferred := a2a.TransportProtocol(binding)
	offered := card.PreferredTransport == preferred
	for _, one := range card.AdditionalInterfaces {
		offered = offered || one.Transport == preferred
	}
	if !offered {
		return nil, fmt.Errorf("the card at %s offers no %s", base, binding)
	}
	options := []a2aclient.FactoryOption{
		a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []a2a.TransportProtocol{preferred}}),
		a2aclient.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
	made, err := a2aclient.NewFromCard(ctx, card, options...)
	if err != nil {
		return nil, err
	}
	return &client{made, card, options}, nil
}

type client struct {
	*a2aclient.Client
	card    *a2a.AgentCard
	options []a2aclient.FactoryOption
}

func cardOf(card *a2a.AgentCard) core.Card {
	return core.Card{
		Name: card.Name, Description: card.Description, Version: card.Version,
		Streaming: card.Capabilities.Streaming, Push: card.Capabilities.PushNotifications,
	}
}

func (c *client) Card() core.Card { return cardOf(c.card) }

func (c *client) ExtendedCard(ctx context.Context) (core.Card, error) {
	// The SDK asks only if the card declares an extended one, so the client is given a card that claims it.
	claiming := *c.card
	claiming.SupportsAuthenticatedExtendedCard = true
	other, err := a2aclient.NewFromCard(ctx, &claiming, c.options...)
	if err != nil {
		return core.Card{}, err
	}
	card, err := other.GetAgentCard(ctx)
	if err != nil {
		return core.Card{}, err
	}
	return cardOf(card), nil
}

func request(message core.Message, wait bool) *a2a.MessageSendParams {
	made := &a2a.Message{
		ID: message.ID, Role: a2a.MessageRoleUser, TaskID: a2a.TaskID(message.Task), ContextID: message.Context,
		Parts: a2a.ContentParts{},
	}
	for _, part := range message.Parts {
		made.Parts = append(made.Parts, partFor(part))
	}
	asked := &a2a.MessageSendParams{Message: made}
	if !wait {
		asked.Config = &a2a.MessageSendConfig{Blocking: new(bool)}
	}
	return asked
}

func partFor(part core.Part) a2a.Part {
	about := a2a.FileMeta{Name: part.Name, MimeType: part.MediaType}
	switch part.Kind {
	case "raw":
		return a2a.FilePart{File: a2a.FileBytes{FileMeta: about, Bytes: base64.StdEncoding.EncodeToString(part.Raw)}}
	case "url":
		return a2a.FilePart{File: a2a.FileURI{FileMeta: about, URI: part.URL}}
	case "data":
		return a2a.DataPart{Data: part.Data}
	default:
		return a2a.TextPart{Text: part.Text}
	}
}

func (c *client) Send(ctx context.Context, message core.Message, wait bool) (core.Event, error) {
	reply, err := c.SendMessage(ctx, request(message, wait))
	if err != nil {
		return core.Event{}, err
	}
	return eventOf(reply), nil
}

func (c *client) Stream(ctx context.Context, message core.Message) iter.Seq2[core.Event, error] {
	return eventsOf(c.SendStreamingMessage(ctx, request(message, true)))
}

func (c *client) Subscribe(ctx context.Context, task string) iter.Seq2[core.Event, error] {
	return eventsOf(c.ResubscribeToTask(ctx, &a2a.TaskIDParams{ID: a2a.TaskID(task)}))
}

func (c *client) Get(ctx context.Context, task string, history *int) (*core.Task, error) {
	got, err := c.GetTask(ctx, &a2a.TaskQueryParams{ID: a2a.TaskID(task), HistoryLength: history})
	if err != nil {
		return nil, err
	}
	return taskOf(got), nil
}

func (c *client) Cancel(ctx context.Context, task string) (*core.Task, error) {
	got, err := c.CancelTask(ctx, &a2a.TaskIDParams{ID: a2a.TaskID(task)})
	if err != nil {
		return nil, err
	}
	return taskOf(got), nil
}

func (c *client) SetHook(ctx context.Context, task, id, url string) (string, error) {
	config := a2a.PushConfig{ID: id, URL: url}
	made, err := c.SetTaskPushConfig(ctx, &a2a.TaskPushConfig{TaskID: a2a.TaskID(task), Config: config})
	if err != nil {
		return "", err
	}
	return made.Config.ID, nil
}

func (c *client) Hooks(ctx context.Context, task string) ([]string, error) {
	listed, err := c.ListTaskPushConfig(ctx, &a2a.ListTaskPushConfigParams{TaskID: a2a.TaskID(task)})
	if err != nil {
		return nil, err
	}
	var found []string
	for _, one := range listed {
		found = append(found, fmt.Sprintf("%s %s", one.Config.ID, one.Config.URL))
	}
	return found, nil
}

func (c *client) DeleteHook(ctx context.Context, task, id string) error {
	return c.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigParams{TaskID: a2a.TaskID(task), ConfigID: id})
}

var errorNames = map[error]string{
	a2a.ErrInvalidParams: "InvalidParams", a2a.ErrMethodNotFound: "MethodNotFound", a2a.ErrTaskNotFound: "TaskNotFound",
	a2a.ErrTaskNotCancelable: "TaskNotCancelable", a2a.ErrUnsupportedOperation: "UnsupportedOperation",
	a2a.ErrPushNotificationNotSupported:           "PushNotificationNotSupported",
	a2a.ErrAuthenticatedExtendedCardNotConfigured: "ExtendedCardNotConfigured",
	a2a.ErrInvalidRequest:                         "InvalidRequest", a2a.ErrInternalError: "InternalError", a2a.ErrServerError: "ServerError",
}

func (c *client) ErrorName(err error) string {
	for known, name := range errorNames {
		if errors.Is(err, known) {
			return name
		}
	}
	return ""
}

// --- From the types of the SDK ---

func eventsOf(events iter.Seq2[a2a.Event, error]) iter.Seq2[core.Event, error] {
	return func(yield func(core.Event, error) bool) {
		for event, err := range events {
			var told core.Event
			if err == nil {
				told = eventOf(event)
			}
			if !yield(told, err) {
				return
			}
		}
	}
}

func eventOf(event a2a.Event) core.Event {
	info := event.TaskInfo()
	told := core.Event{Task: string(info.TaskID), Context: info.ContextID}
	switch one := event.(type) {
	case *a2a.Task:
		told.Kind, told.Snapshot = "task", taskOf(one)
	case *a2a.Message:
		told.Kind, told.Message = "message", messageOf(one)
	case *a2a.TaskStatusUpdateEvent:
		status := statusOf(one.Status)
		told.Kind, told.Status, told.Final = "status-update", &status, &one.Final
	case *a2a.TaskArtifactUpdateEvent:
		made := artifactOf(one.Artifact)
		told.Kind, told.Artifact, told.Append, told.LastChunk = "artifact-update", &made, one.Append, one.LastChunk
	}
	return told
}

func taskOf(task *a2a.Task) *core.Task {
	told := &core.Task{ID: string(task.ID), Context: task.ContextID, Status: statusOf(task.Status)}
	for _, made := range task.Artifacts {
		told.Artifacts = append(told.Artifacts, artifactOf(made))
	}
	for _, message := range task.History {
		told.History = append(told.History, *messageOf(message))
	}
	return told
}

func statusOf(status a2a.TaskStatus) core.Status {
	return core.Status{State: string(status.State), Message: messageOf(status.Message)}
}

func messageOf(message *a2a.Message) *core.Message {
	if message == nil {
		return nil
	}
	return &core.Message{
		ID: message.ID, Task: string(message.TaskID), Context: message.ContextID, Role: string(message.Role),
		Parts: partsOf(message.Parts),
	}
}

func artifactOf(made *a2a.Artifact) core.Artifact {
	return core.Artifact{ID: string(made.ID), Name: made.Name, Parts: partsOf(made.Parts)}
}

func partsOf(parts a2a.ContentParts) []core.Part {
	var told []core.Part
	for _, part := range parts {
		switch one := part.(type) {
		case a2a.TextPart:
			told = append(told, core.Part{Kind: "text", Text: one.Text})
		case a2a.DataPart:
			told = append(told, core.Part{Kind: "data", Data: one.Data})
		case a2a.FilePart:
			told = append(told, fileOf(one.File))
		}
	}
	return told
}

func fileOf(file a2a.FilePartContent) core.Part {
	switch one := file.(type) {
	case a2a.FileBytes:
		// Bytes that are no base64 stay what they are, so that a check sees them.
		raw, err := base64.StdEncoding.DecodeString(one.Bytes)
		if err != nil {
			raw = []byte(one.Bytes)
		}
		return core.Part{Kind: "raw", Raw: raw, Name: one.Name, MediaType: one.MimeType}
	case a2a.FileURI:
		return core.Part{Kind: "url", URL: one.URI, Name: one.Name, MediaType: one.MimeType}
	}
	return core.Part{Kind: "unknown"}
}
