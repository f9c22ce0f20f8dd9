// An agent made with the last Go SDK for 0.3, on the two bindings that it serves.
//
//	server-0.3 -http PORT -grpc PORT [-first GRPC]
//
// -first names the binding that its card prefers.
package main

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"conformance/behaviour"
	"conformance/core"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2agrpc"
	"github.com/a2aproject/a2a-go/a2asrv"
	"github.com/a2aproject/a2a-go/a2asrv/eventqueue"
	"github.com/a2aproject/a2a-go/a2asrv/push"
	"google.golang.org/grpc"
)

type player struct {
	base string
	// The tasks that hold, by id: each channel is closed by a cancel.
	canceled sync.Map
}

func (p *player) Execute(ctx context.Context, asked *a2asrv.RequestContext, queue eventqueue.Queue) error {
	text := ""
	for _, part := range asked.Message.Parts {
		if one, ok := part.(a2a.TextPart); ok {
			text += one.Text
		}
	}
	made, _ := p.canceled.LoadOrStore(asked.TaskID, make(chan struct{}))
	canceled := made.(chan struct{})
	for step := range behaviour.Steps(text, asked.StoredTask != nil, p.base) {
		var event a2a.Event
		switch step.Kind {
		case "task":
			event = a2a.NewSubmittedTask(asked, asked.Message)
		case "status":
			var message *a2a.Message
			if step.Text != "" {
				message = a2a.NewMessageForTask(a2a.MessageRoleAgent, asked, a2a.TextPart{Text: step.Text})
			}
			update := a2a.NewStatusUpdateEvent(asked, a2a.TaskState(step.State), message)
			update.Final = behaviour.Ends(step.State)
			event = update
		case "artifact":
			update := a2a.NewArtifactUpdateEvent(asked, a2a.ArtifactID(step.Artifact.ID), partsFor(step.Artifact.Parts)...)
			update.Artifact.Name, update.Append, update.LastChunk = step.Artifact.Name, step.Append, step.LastChunk
			event = update
		case "message":
			message := a2a.NewMessage(a2a.MessageRoleAgent, a2a.TextPart{Text: step.Text})
			message.ContextID = asked.ContextID
			event = message
		case "sleep":
			select {
			case <-time.After(behaviour.ChunkPause):
			case <-canceled:
				return nil
			}
			continue
		case "hold":
			<-canceled
			return nil
		}
		if err := queue.Write(ctx, event); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) Cancel(ctx context.Context, asked *a2asrv.RequestContext, queue eventqueue.Queue) error {
	update := a2a.NewStatusUpdateEvent(asked, a2a.TaskStateCanceled, nil)
	update.Final = true
	err := queue.Write(ctx, update)
	if held, ok := p.canceled.LoadAndDelete(asked.TaskID); ok {
		close(held.(chan struct{}))
	}
	return err
}

func partsFor(parts []core.Part) []a2a.Part {
	var made []a2a.Part
	for _, part := range parts {
		about := a2a.FileMeta{Name: part.Name, MimeType: part.MediaType}
		switch part.Kind {
		case "text":
			made = append(made, a2a.TextPart{Text: part.Text})
		case "raw":
			bytes := base64.StdEncoding.EncodeToString(part.Raw)
			made = append(made, a2a.FilePart{File: a2a.FileBytes{FileMeta: about, Bytes: bytes}})
		case "url":
			made = append(made, a2a.FilePart{File: a2a.FileURI{FileMeta: about, URI: part.URL}})
		case "data":
			made = append(made, a2a.DataPart{Data: part.Data})
		}
	}
	return made
}

func main() {
	httpPort, grpcPort := flag.Int("http", 0, "port"), flag.Int("grpc", 0, "port")
	first := flag.String("first", "JSONRPC", "the binding that the card prefers")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))

	base := fmt.Sprintf("http://127.0.0.1:%d", *httpPort)
	card := &a2a.AgentCard{
		Name: "Go 0.3", Description: "An agent of the tests on the Go SDK for 0.3", Version: "1.0.0",
		ProtocolVersion: "0.3.0", URL: base + "/rpc", PreferredTransport: a2a.TransportProtocolJSONRPC,
		AdditionalInterfaces: []a2a.AgentInterface{
			{URL: base + "/rpc", Transport: a2a.TransportProtocolJSONRPC},
			{URL: fmt.Sprintf("127.0.0.1:%d", *grpcPort), Transport: a2a.TransportProtocolGRPC},
		},
		Capabilities:                      a2a.AgentCapabilities{Streaming: true, PushNotifications: true},
		SupportsAuthenticatedExtendedCard: true,
		DefaultInputModes:                 []string{"text/plain", "application/json", "application/octet-stream"},
		DefaultOutputModes:                []string{"text/plain"},
		Skills: []a2a.AgentSkill{{
			ID: "play", Name: "Play", Description: "Does what the first word says", Tags: []string{"test"},
			Examples: []string{"echo hello", "slow 3", "ask"},
		}},
	}
	if *first == "GRPC" {
		card.PreferredTransport, card.URL = a2a.TransportProtocolGRPC, card.AdditionalInterfaces[1].URL
	}
	extended := *card
	extended.Description = "The extended card"
	handler := a2asrv.NewHandler(
		&player{base: base}, a2asrv.WithExtendedAgentCard(&extended),
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(nil)),
	)

	mux := http.NewServeMux()
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(handler))
	mux.HandleFunc("/files/paper.txt", behaviour.Paper)
	grpcServer := grpc.NewServer()
	a2agrpc.NewHandler(handler).RegisterWith(grpcServer)
	behaviour.Serve(mux, *httpPort, func(listener net.Listener) error { return grpcServer.Serve(listener) }, *grpcPort)
}
