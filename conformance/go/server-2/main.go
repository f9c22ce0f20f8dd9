// An agent made with version 2 of the Go SDK, on all three bindings.
//
//	server-2 -http PORT -grpc PORT [-speak 0.3] [-first GRPC]
//
// With -speak 0.3 it serves what the SDK has for callers of 0.3, and nothing else. -first names the binding that its card has
// at the head of its list, which is the one that most clients take.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"conformance/behaviour"
	"conformance/core"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpc0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpc1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc"
)

type player struct {
	base string
	// The tasks that hold, by id: each channel is closed by a cancel.
	canceled sync.Map
}

func (p *player) Execute(ctx context.Context, asked *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		text := ""
		for _, part := range asked.Message.Parts {
			text += part.Text()
		}
		answering := asked.StoredTask != nil
		made, _ := p.canceled.LoadOrStore(asked.TaskID, make(chan struct{}))
		canceled := made.(chan struct{})
		for step := range behaviour.Steps(text, answering, p.base) {
			var event a2a.Event
			switch step.Kind {
			case "task":
				event = a2a.NewSubmittedTask(asked, asked.Message)
			case "status":
				var message *a2a.Message
				if step.Text != "" {
					message = a2a.NewMessageForTask(a2a.MessageRoleAgent, asked, a2a.NewTextPart(step.Text))
				}
				event = a2a.NewStatusUpdateEvent(asked, stateOf(step.State), message)
			case "artifact":
				update := a2a.NewArtifactUpdateEvent(asked, a2a.ArtifactID(step.Artifact.ID), partsFor(step.Artifact.Parts)...)
				update.Artifact.Name, update.Append, update.LastChunk = step.Artifact.Name, step.Append, step.LastChunk
				event = update
			case "message":
				message := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(step.Text))
				message.ContextID = asked.ContextID
				event = message
			case "sleep":
				select {
				case <-time.After(behaviour.ChunkPause):
				case <-canceled:
					return
				}
				continue
			case "hold":
				<-canceled
				return
			}
			if !yield(event, nil) {
				return
			}
		}
	}
}

func (p *player) Cancel(ctx context.Context, asked *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(asked, a2a.TaskStateCanceled, nil), nil)
		if held, ok := p.canceled.LoadAndDelete(asked.TaskID); ok {
			close(held.(chan struct{}))
		}
	}
}

func stateOf(name string) a2a.TaskState { return a2a.TaskState(behaviour.NewState(name)) }

func partsFor(parts []core.Part) []*a2a.Part {
	var made []*a2a.Part
	for _, part := range parts {
		one := &a2a.Part{Filename: part.Name, MediaType: part.MediaType}
		switch part.Kind {
		case "text":
			one.Content = a2a.Text(part.Text)
		case "raw":
			one.Content = a2a.Raw(part.Raw)
		case "url":
			one.Content = a2a.URL(part.URL)
		case "data":
			one.Content = a2a.Data{Value: part.Data}
		}
		made = append(made, one)
	}
	return made
}

func main() {
	httpPort, grpcPort := flag.Int("http", 0, "port"), flag.Int("grpc", 0, "port")
	speak := flag.String("speak", "1.0", "the version of the protocol: 1.0 or 0.3")
	first := flag.String("first", "JSONRPC", "the binding that the card lists first")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))

	base := fmt.Sprintf("http://127.0.0.1:%d", *httpPort)
	version := a2a.ProtocolVersion(*speak)
	if *speak == "0.3" {
		version = a2av0.Version
	}
	offer := func(url string, binding a2a.TransportProtocol) *a2a.AgentInterface {
		return &a2a.AgentInterface{URL: url, ProtocolBinding: binding, ProtocolVersion: version}
	}
	card := &a2a.AgentCard{
		Name: "Go 2", Description: "An agent of the tests on the Go SDK", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{
			offer(base+"/rpc", a2a.TransportProtocolJSONRPC), offer(base+"/rest", a2a.TransportProtocolHTTPJSON),
			offer(fmt.Sprintf("127.0.0.1:%d", *grpcPort), a2a.TransportProtocolGRPC),
		},
		Capabilities:       a2a.AgentCapabilities{Streaming: true, PushNotifications: true, ExtendedAgentCard: true},
		DefaultInputModes:  []string{"text/plain", "application/json", "application/octet-stream"},
		DefaultOutputModes: []string{"text/plain"},
		Skills: []a2a.AgentSkill{{
			ID: "play", Name: "Play", Description: "Does what the first word says", Tags: []string{"test"},
			Examples: []string{"echo hello", "slow 3", "ask"},
		}},
	}
	slices.SortStableFunc(card.SupportedInterfaces, func(one, other *a2a.AgentInterface) int {
		return behaviour.Order(*first, string(one.ProtocolBinding), string(other.ProtocolBinding))
	})
	extended := *card
	extended.Description = "The extended card"
	// A list of tasks needs a user, and all callers are the same one here.
	anyone := func(context.Context) (string, error) { return "anyone", nil }
	handler := a2asrv.NewHandler(
		&player{base: base}, a2asrv.WithExtendedAgentCard(&extended),
		a2asrv.WithTaskStore(taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: anyone})),
		a2asrv.WithPushNotifications(
			push.NewInMemoryStore(), push.NewHTTPPushSender(&push.HTTPSenderConfig{AllowPrivateNetworks: true}),
		),
	)

	mux := http.NewServeMux()
	grpcServer := grpc.NewServer()
	if *speak == "0.3" {
		mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewAgentCardHandler(a2av0.NewStaticAgentCardProducer(card)))
		mux.Handle("/rpc", a2av0.NewJSONRPCHandler(handler))
		mux.Handle("/rest/", http.StripPrefix("/rest", a2av0.NewRESTHandler(handler)))
		grpc0.NewHandler(handler).RegisterWith(grpcServer)
	} else {
		mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
		mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(handler))
		mux.Handle("/rest/", http.StripPrefix("/rest", a2asrv.NewRESTHandler(handler)))
		grpc1.NewHandler(handler).RegisterWith(grpcServer)
	}
	mux.HandleFunc("/files/paper.txt", behaviour.Paper)
	behaviour.Serve(mux, *httpPort, func(listener net.Listener) error { return grpcServer.Serve(listener) }, *grpcPort)
}
