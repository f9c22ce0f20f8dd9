// Drives an A2A server with version 2 of the Go SDK and reports, case by case, whether it kept its promises.
//
//	client-2 [-speak 0.3] [-binding GRPC] [-case stream] BASE_URL
//
// With -speak 0.3 the client has the transports of the SDK for servers of 0.3, and no others.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"strings"

	"conformance/core"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpc0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpc1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

var speak = flag.String("speak", "1.0", "the version of the protocol: 1.0 or 0.3")

func main() { core.Main([]string{"JSONRPC", "HTTP+JSON", "GRPC"}, dial) }

func dial(ctx context.Context, base, binding string) (core.Client, error) {
	credentials := grpc.WithTransportCredentials(insecure.NewCredentials())
	resolver, options := agentcard.NewResolver(nil), []a2aclient.FactoryOption{grpc1.WithGRPCTransport(credentials)}
	if *speak == "0.3" {
		resolver.CardParser = a2av0.NewAgentCardParser()
		options = []a2aclient.FactoryOption{
			a2aclient.WithDefaultsDisabled(), a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{}),
			a2av0.WithRESTTransport(a2av0.RESTTransportConfig{}), grpc0.WithGRPCTransport(credentials),
		}
	}
	card, err := resolver.Resolve(ctx, base)
	if err != nil {
		return nil, err
	}
	fitting := *card
	fitting.SupportedInterfaces = nil
	for _, offered := range card.SupportedInterfaces {
		if string(offered.ProtocolBinding) == binding && strings.HasPrefix(string(offered.ProtocolVersion), *speak) {
			fitting.SupportedInterfaces = append(fitting.SupportedInterfaces, offered)
		}
	}
	made, err := a2aclient.NewFromCard(ctx, &fitting, options...)
	if err != nil {
		return nil, err
	}
	return &client{made, &fitting, options}, nil
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
	claiming.Capabilities.ExtendedAgentCard = true
	other, err := a2aclient.NewFromCard(ctx, &claiming, c.options...)
	if err != nil {
		return core.Card{}, err
	}
	card, err := other.GetExtendedAgentCard(ctx, &a2a.GetExtendedAgentCardRequest{})
	if err != nil {
		return core.Card{}, err
	}
	return cardOf(card), nil
}

func request(message core.Message, wait bool) *a2a.SendMessageRequest {
	made := &a2a.Message{
		ID: message.ID, Role: a2a.MessageRoleUser, TaskID: a2a.TaskID(message.Task), ContextID: message.Context,
		Parts: a2a.ContentParts{},
	}
	for _, part := range message.Parts {
		made.Parts = append(made.Parts, partFor(part))
	}
	asked := &a2a.SendMessageRequest{Message: made}
	if !wait {
		asked.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	}
	return asked
}

func partFor(part core.Part) *a2a.Part {
	made := &a2a.Part{Filename: part.Name, MediaType: part.MediaType}
	switch part.Kind {
	case "text":
		made.Content = a2a.Text(part.Text)
	case "raw":
		made.Content = a2a.Raw(part.Raw)
	case "url":
		made.Content = a2a.URL(part.URL)
	case "data":
		made.Content = a2a.Data{Value: part.Data}
	}
	return made
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
	return eventsOf(c.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: a2a.TaskID(task)}))
}

func (c *client) Get(ctx context.Context, task string, history *int) (*core.Task, error) {
	got, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: a2a.TaskID(task), HistoryLength: history})
	if err != nil {
		return nil, err
	}
	return taskOf(got), nil
}

func (c *client) Cancel(ctx context.Context, task string) (*core.Task, error) {
	got, err := c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: a2a.TaskID(task)})
	if err != nil {
		return nil, err
	}
	return taskOf(got), nil
}

func (c *client) SetHook(ctx context.Context, task, id, url string) (string, error) {
	made, err := c.CreateTaskPushConfig(ctx, &a2a.PushConfig{TaskID: a2a.TaskID(task), ID: id, URL: url})
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

func (c *client) Hooks(ctx context.Context, task string) ([]string, error) {
	listed, err := c.ListTaskPushConfigs(ctx, &a2a.ListTaskPushConfigRequest{TaskID: a2a.TaskID(task)})
	if err != nil {
		return nil, err
	}
	var found []string
	for _, one := range listed {
		found = append(found, fmt.Sprintf("%s %s", one.ID, one.URL))
	}
	return found, nil
}

func (c *client) DeleteHook(ctx context.Context, task, id string) error {
	return c.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigRequest{TaskID: a2a.TaskID(task), ID: id})
}

var errorNames = map[error]string{
	a2a.ErrInvalidParams: "InvalidParams", a2a.ErrMethodNotFound: "MethodNotFound", a2a.ErrTaskNotFound: "TaskNotFound",
	a2a.ErrTaskNotCancelable: "TaskNotCancelable", a2a.ErrUnsupportedOperation: "UnsupportedOperation",
	a2a.ErrPushNotificationNotSupported: "PushNotificationNotSupported",
	a2a.ErrExtendedCardNotConfigured:    "ExtendedCardNotConfigured", a2a.ErrVersionNotSupported: "VersionNotSupported",
	a2a.ErrInvalidRequest: "InvalidRequest", a2a.ErrInternalError: "InternalError", a2a.ErrServerError: "ServerError",
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
		told.Kind, told.Status = "status-update", &status
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
	state := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(string(status.State), "TASK_STATE_")), "_", "-")
	return core.Status{State: state, Message: messageOf(status.Message)}
}

func messageOf(message *a2a.Message) *core.Message {
	if message == nil {
		return nil
	}
	return &core.Message{
		ID: message.ID, Task: string(message.TaskID), Context: message.ContextID, Parts: partsOf(message.Parts),
		Role: strings.ToLower(strings.TrimPrefix(string(message.Role), "ROLE_")),
	}
}

func artifactOf(made *a2a.Artifact) core.Artifact {
	return core.Artifact{ID: string(made.ID), Name: made.Name, Parts: partsOf(made.Parts)}
}

func partsOf(parts a2a.ContentParts) []core.Part {
	var told []core.Part
	for _, part := range parts {
		one := core.Part{Name: part.Filename, MediaType: part.MediaType}
		switch content := part.Content.(type) {
		case a2a.Text:
			one.Kind, one.Text = "text", string(content)
		case a2a.Raw:
			one.Kind, one.Raw = "raw", content
		case a2a.URL:
			one.Kind, one.URL = "url", string(content)
		case a2a.Data:
			one.Kind = "data"
			one.Data, _ = content.Value.(map[string]any)
		}
		told = append(told, one)
	}
	return told
}
