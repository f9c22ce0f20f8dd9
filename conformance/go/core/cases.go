package core

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Port 9 discards: the hook is only stored and looked up, and no program listens.
const hook = "http://127.0.0.1:8009/hook"

// Cases are the promises of `cases/core.txt`, in the order of that list.
var Cases = []Case{
	{"discover", discover},
	{"extended-card", extendedCard},
	{"send-blocking", sendBlocking},
	{"send-aggregate", sendAggregate},
	{"return-immediately", returnImmediately},
	{"part-bytes", partBytes},
	{"part-uri", partURI},
	{"part-data", partData},
	{"file-parts", fileParts},
	{"direct-send", directSend},
	{"failed", inEnd("fail now", "failed", "could not")},
	{"rejected", inEnd("reject this", "rejected", "will not")},
	{"get-task", getTask},
	{"history-length", historyLength},
	{"stream", stream},
	{"stream-final", streamFinal},
	{"stream-dropped", streamDropped},
	{"direct-stream", directStream},
	{"subscribe-cancel", subscribeCancel},
	{"subscribe-input", subscribeInput},
	{"multi-turn", multiTurn},
	{"multi-turn-stream", multiTurnStream},
	{"auth-required", authRequired},
	{"context-mismatch", contextMismatch},
	{"get-unknown", getUnknown},
	{"cancel-unknown", cancelUnknown},
	{"cancel-settled", cancelSettled},
	{"subscribe-unknown", subscribeUnknown},
	{"subscribe-settled", subscribeSettled},
	{"stream-unknown-task", streamUnknownTask},
	{"send-settled", sendSettled},
	{"send-unknown-task", sendUnknownTask},
	{"send-no-parts", sendNoParts},
	{"push-set", pushSet},
	{"push-delete", pushDelete},
	{"push-unknown", pushUnknown},
	{"push-unsupported", pushUnsupported},
}

// --- Words the cases are written in ---

// NewID is a random id in the form of a UUID.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

func say(text string) Message {
	return Message{ID: NewID(), Role: "user", Parts: []Part{{Kind: "text", Text: text}}}
}

func (m Message) to(task *Task) Message {
	m.Task = task.ID
	return m
}

func textOf(parts []Part) string {
	var text strings.Builder
	for _, part := range parts {
		text.WriteString(part.Text)
	}
	return text.String()
}

func (s Status) text() string {
	if s.Message == nil {
		return ""
	}
	return textOf(s.Message.Parts)
}

func inState(status Status, want, text string) error {
	if err := equal("state", status.State, want); err != nil || text == "" {
		return err
	}
	if status.Message == nil {
		return errors.New("the status has no message")
	}
	return all(equal("status text", status.text(), text), equal("role", status.Message.Role, "agent"))
}

func (p *Peer) task(message Message) (*Task, error) { return p.taskOf(p.Send(p.ctx, message, true)) }

func (p *Peer) started(text string) (*Task, error) { return p.taskOf(p.Send(p.ctx, say(text), false)) }

func (p *Peer) taskOf(reply Event, err error) (*Task, error) {
	if err != nil {
		return nil, err
	}
	if reply.Snapshot == nil {
		return nil, fmt.Errorf("expected a task, got a %s", reply.Kind)
	}
	return reply.Snapshot, nil
}

func collect(events iter.Seq2[Event, error]) ([]Event, error) {
	var seen []Event
	for event, err := range events {
		if err != nil {
			return seen, err
		}
		seen = append(seen, event)
	}
	if len(seen) == 0 {
		return nil, errors.New("the stream ended without an event and without an error")
	}
	return seen, nil
}

func (p *Peer) streamed(message Message) ([]Event, error) { return collect(p.Stream(p.ctx, message)) }

// finalStatus is the status that a stream ended with.
func finalStatus(events []Event) Status {
	last := events[len(events)-1]
	switch {
	case last.Status != nil:
		return *last.Status
	case last.Snapshot != nil:
		return last.Snapshot.Status
	}
	return Status{State: "no status: " + last.Kind}
}

// follower reads a subscription in the background.
type follower struct {
	first  chan Event
	done   chan struct{}
	events []Event
	err    error
}

func (p *Peer) follow(task string) (*follower, Event, error) {
	f := &follower{first: make(chan Event, 1), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for event, err := range p.Subscribe(p.ctx, task) {
			if err != nil {
				f.err = err
				return
			}
			if len(f.events) == 0 {
				f.first <- event
			}
			f.events = append(f.events, event)
		}
	}()
	select {
	case first := <-f.first:
		return f, first, nil
	case <-f.done:
		if f.err == nil {
			f.err = errors.New("the subscription ended without an event")
		}
		return nil, Event{}, f.err
	}
}

func (f *follower) ended() ([]Event, error) {
	<-f.done
	return f.events, f.err
}

// --- Discovery ---

func discover(p *Peer) error {
	return equal("card", p.Card(), Card{"demo", "conformance agent", "1.0.0", true, true})
}

func extendedCard(p *Peer) error {
	card, err := p.ExtendedCard(p.ctx)
	if err == nil && p.binding == "GRPC" {
		return equal("name", card.Name, "demo")
	}
	return p.refused(err, "UnsupportedOperation", "ExtendedCardNotConfigured")
}

// --- Sending ---

func sendBlocking(p *Peer) error {
	text := "héllo wörld, ✓ 你好 🌊"
	message := say(text)
	task, err := p.task(message)
	if err != nil {
		return err
	}
	if task.ID == "" || task.Context == "" || len(task.Artifacts) != 1 || len(task.History) == 0 {
		return fmt.Errorf("incomplete task: %+v", task)
	}
	kept := task.History[0]
	return all(
		inState(task.Status, "completed", ""),
		equal("artifact", textOf(task.Artifacts[0].Parts), text),
		equal("message in history", []string{kept.ID, kept.Role, textOf(kept.Parts)}, []string{message.ID, "user", text}),
	)
}

func sendAggregate(p *Peer) error {
	task, err := p.task(say("stream, but in one reply"))
	if err != nil {
		return err
	}
	if len(task.Artifacts) != 1 {
		return fmt.Errorf("artifacts: %+v", task.Artifacts)
	}
	made := task.Artifacts[0]
	return all(
		inState(task.Status, "completed", "done"),
		equal("artifact", []string{made.ID, made.Name, textOf(made.Parts)}, []string{"a1", "draft", "part one part two"}),
		equal("task of the status message", task.Status.Message.Task, task.ID),
	)
}

func returnImmediately(p *Peer) error {
	began := time.Now()
	task, err := p.started("slow work")
	if err != nil {
		return err
	}
	defer func() { _, _ = p.Cancel(p.ctx, task.ID) }()
	if time.Since(began) > 4*time.Second {
		return errors.New("the reply was not immediate")
	}
	for task.Status.State == "submitted" && time.Since(began) < 10*time.Second {
		time.Sleep(50 * time.Millisecond)
		if task, err = p.Get(p.ctx, task.ID, nil); err != nil {
			return err
		}
	}
	if err := inState(task.Status, "working", "working on it"); err != nil {
		return err
	}
	canceled, err := p.Cancel(p.ctx, task.ID)
	if err != nil {
		return err
	}
	after, err := p.Get(p.ctx, task.ID, nil)
	return all(err, inState(canceled.Status, "canceled", ""), inState(after.Status, "canceled", ""))
}

func (p *Peer) echoed(part Part) error {
	message := say("hello")
	message.Parts = append(message.Parts, part)
	task, err := p.task(message)
	if err != nil {
		return err
	}
	if len(task.Artifacts) != 1 || len(task.Artifacts[0].Parts) != 2 || len(task.History) == 0 {
		return fmt.Errorf("not echoed: %+v", task)
	}
	return all(
		equal("part in the artifact", task.Artifacts[0].Parts[1], part),
		equal("part in history", task.History[0].Parts[1], part),
	)
}

func partBytes(p *Peer) error {
	raw := make([]byte, 256)
	for i := range raw {
		raw[i] = byte(i)
	}
	return p.echoed(Part{Kind: "raw", Raw: raw, MediaType: "application/octet-stream"})
}

func partURI(p *Peer) error {
	return p.echoed(Part{Kind: "url", URL: "https://example.com/ä?x=1&y=%20#z", MediaType: "image/png"})
}

func partData(p *Peer) error {
	return p.echoed(Part{Kind: "data", Data: map[string]any{
		"n": 1.0, "half": -0.5, "on": true, "deep": map[string]any{"er": "x"}, "list": []any{"ü", []any{2.0}, 1e-7},
	}})
}

func fileParts(p *Peer) error {
	task, err := p.task(say("file me"))
	if err != nil {
		return err
	}
	got := map[string]Part{}
	for _, made := range task.Artifacts {
		got[made.ID] = made.Parts[0]
	}
	file, data, address := got["f"], got["d"], got["u"]
	if !bytes.Equal(file.Raw, []byte{0, 1, 2, 255}) {
		return fmt.Errorf("bytes: got %v", file.Raw)
	}
	return all(
		equal("type", file.MediaType, "application/octet-stream"),
		equal("data", data.Data, map[string]any{"n": 1.0, "list": []any{1.0, 2.0}, "ok": true}),
		equal("address", []string{address.URL, address.MediaType}, []string{"https://example.com/x.png", "image/png"}),
	)
}

func directSend(p *Peer) error {
	reply, err := p.Send(p.ctx, say("direct please"), true)
	if err != nil {
		return err
	}
	if reply.Message == nil {
		return fmt.Errorf("expected a message, got a %s", reply.Kind)
	}
	return all(
		equal("text", textOf(reply.Message.Parts), "just a message"), equal("role", reply.Message.Role, "agent"),
		equal("task", reply.Message.Task, ""),
	)
}

func inEnd(text, state, words string) func(*Peer) error {
	return func(p *Peer) error {
		task, err := p.task(say(text))
		if err != nil {
			return err
		}
		return inState(task.Status, state, words)
	}
}

// --- Reading ---

func getTask(p *Peer) error {
	sent, err := p.task(say("hello"))
	if err != nil {
		return err
	}
	got, err := p.Get(p.ctx, sent.ID, nil)
	return all(err, equal("task", got, sent))
}

func historyLength(p *Peer) error {
	asked, err := p.task(say("book a table"))
	if err != nil {
		return err
	}
	if _, err = p.task(say("Tuesday").to(asked)); err != nil {
		return err
	}
	whole, err := p.Get(p.ctx, asked.ID, nil)
	if err != nil {
		return err
	}
	if len(whole.History) < 2 {
		return fmt.Errorf("the history of two turns has %d messages", len(whole.History))
	}
	one := 1
	latest, err := p.Get(p.ctx, asked.ID, &one)
	if err != nil {
		return err
	}
	return equal("history at 1", latest.History, whole.History[len(whole.History)-1:])
}

// --- Streams ---

func stream(p *Peer) error {
	events, err := p.streamed(say("stream it"))
	if err != nil {
		return err
	}
	if events[0].Snapshot == nil {
		return fmt.Errorf("the first event is a %s", events[0].Kind)
	}
	task := events[0].Snapshot
	var got []string
	for _, event := range events[1:] {
		if err := equal("ids of an event", []string{event.Task, event.Context}, []string{task.ID, task.Context}); err != nil {
			return err
		}
		switch {
		case event.Artifact != nil:
			got = append(got, fmt.Sprintf("%s %s append=%v last=%v", event.Artifact.ID, textOf(event.Artifact.Parts), event.Append, event.LastChunk))
		case event.Status != nil && event.Status.Message != nil:
			got = append(got, event.Status.State+" "+event.Status.text())
		}
	}
	want := []string{
		"working looking", "a1 part one  append=false last=false", "a1 part two append=true last=true", "completed done",
	}
	if err := all(equal("events", got, want), inState(finalStatus(events), "completed", "")); err != nil {
		return err
	}
	stored, err := p.Get(p.ctx, task.ID, nil)
	if err != nil {
		return err
	}
	return equal("stored artifact", textOf(stored.Artifacts[0].Parts), "part one part two")
}

func streamFinal(p *Peer) error {
	for _, text := range []string{"stream it", "fail now", "book a table"} {
		events, err := p.streamed(say(text))
		if err != nil {
			return err
		}
		for number, event := range events {
			if event.Status == nil {
				continue
			}
			if event.Final == nil {
				return NotExpressible("the SDK shows no `final`")
			}
			if err := equal("final", *event.Final, number == len(events)-1); err != nil {
				return err
			}
		}
	}
	return nil
}

func streamDropped(p *Peer) error {
	ctx, cancel := context.WithCancel(p.ctx)
	var task *Task
	for event, err := range p.Stream(ctx, say("slow, and the caller does not read on")) {
		if err != nil {
			cancel()
			return err
		}
		task = event.Snapshot
		break
	}
	cancel()
	if task == nil {
		return errors.New("the first event is no task")
	}
	defer func() { _, _ = p.Cancel(p.ctx, task.ID) }()
	time.Sleep(500 * time.Millisecond)
	got, err := p.Get(p.ctx, task.ID, nil)
	if err != nil {
		return err
	}
	return inState(got.Status, "working", "working on it")
}

func directStream(p *Peer) error {
	events, err := p.streamed(say("direct please"))
	if err != nil {
		return err
	}
	if len(events) != 1 || events[0].Message == nil {
		return fmt.Errorf("events: %+v", events)
	}
	return equal("text", textOf(events[0].Message.Parts), "just a message")
}

func subscribeCancel(p *Peer) error {
	task, err := p.started("slow work")
	if err != nil {
		return err
	}
	defer func() { _, _ = p.Cancel(p.ctx, task.ID) }()
	following, first, err := p.follow(task.ID)
	if err != nil {
		return err
	}
	if first.Snapshot == nil || first.Snapshot.ID != task.ID {
		return fmt.Errorf("the first event is %+v", first)
	}
	canceled, err := p.Cancel(p.ctx, task.ID)
	if err != nil {
		return err
	}
	events, err := following.ended()
	if err != nil {
		return err
	}
	return all(inState(canceled.Status, "canceled", ""), inState(finalStatus(events), "canceled", ""))
}

func subscribeInput(p *Peer) error {
	asked, err := p.task(say("book a table"))
	if err != nil {
		return err
	}
	following, first, err := p.follow(asked.ID)
	if err != nil {
		return err
	}
	if first.Snapshot == nil {
		return fmt.Errorf("the first event is a %s", first.Kind)
	}
	if err := inState(first.Snapshot.Status, "input-required", "Which day?"); err != nil {
		return err
	}
	if _, err := p.task(say("Tuesday").to(asked)); err != nil {
		return err
	}
	events, err := following.ended()
	if err != nil {
		return err
	}
	var made []string
	for _, event := range events {
		if event.Artifact != nil {
			made = append(made, event.Artifact.ID+" "+textOf(event.Artifact.Parts))
		}
	}
	return all(equal("artifacts", made, []string{"booking booked"}), inState(finalStatus(events), "completed", ""))
}

// --- Turns ---

func multiTurn(p *Peer) error {
	asked, err := p.task(say("book a table"))
	if err != nil {
		return err
	}
	if err := inState(asked.Status, "input-required", "Which day?"); err != nil {
		return err
	}
	done, err := p.task(say("Tuesday").to(asked))
	if err != nil {
		return err
	}
	return all(
		equal("ids", []string{done.ID, done.Context}, []string{asked.ID, asked.Context}),
		inState(done.Status, "completed", "booked"), equal("artifact", textOf(done.Artifacts[0].Parts), "booked"),
	)
}

func multiTurnStream(p *Peer) error {
	events, err := p.streamed(say("book a table"))
	if err != nil {
		return err
	}
	if err := inState(finalStatus(events), "input-required", "Which day?"); err != nil {
		return err
	}
	more, err := p.streamed(say("Tuesday").to(events[0].Snapshot))
	if err != nil {
		return err
	}
	return inState(finalStatus(more), "completed", "booked")
}

func authRequired(p *Peer) error {
	asked, err := p.task(say("auth please"))
	if err != nil {
		return err
	}
	if err := inState(asked.Status, "auth-required", "log in"); err != nil {
		return err
	}
	done, err := p.task(say("I did").to(asked))
	if err != nil {
		return err
	}
	return inState(done.Status, "completed", "in")
}

func contextMismatch(p *Peer) error {
	asked, err := p.task(say("book a table"))
	if err != nil {
		return err
	}
	other, err := p.task(say("hello"))
	if err != nil {
		return err
	}
	message := say("Tuesday").to(asked)
	message.Context = other.Context
	_, err = p.task(message)
	return p.refused(err, "InvalidParams")
}

// --- Refusals ---

func getUnknown(p *Peer) error {
	for _, id := range []string{NewID(), "tâche perdue ✗"} {
		_, err := p.Get(p.ctx, id, nil)
		if err := p.refused(err, "TaskNotFound"); err != nil {
			return err
		}
	}
	return nil
}

func cancelUnknown(p *Peer) error {
	_, err := p.Cancel(p.ctx, NewID())
	return p.refused(err, "TaskNotFound")
}

func (p *Peer) settled() (*Task, error) { return p.task(say("hello")) }

func cancelSettled(p *Peer) error {
	task, err := p.settled()
	if err != nil {
		return err
	}
	_, err = p.Cancel(p.ctx, task.ID)
	return p.refused(err, "TaskNotCancelable")
}

func subscribeUnknown(p *Peer) error {
	_, err := collect(p.Subscribe(p.ctx, NewID()))
	return p.refused(err, "TaskNotFound")
}

func subscribeSettled(p *Peer) error {
	task, err := p.settled()
	if err != nil {
		return err
	}
	_, err = collect(p.Subscribe(p.ctx, task.ID))
	return p.refused(err, "UnsupportedOperation")
}

func streamUnknownTask(p *Peer) error {
	_, err := p.streamed(say("hello").to(&Task{ID: NewID()}))
	return p.refused(err, "TaskNotFound")
}

func sendSettled(p *Peer) error {
	task, err := p.settled()
	if err != nil {
		return err
	}
	_, once := p.task(say("one more thing").to(task))
	_, streamed := p.streamed(say("and another").to(task))
	return all(p.refused(once, "UnsupportedOperation"), p.refused(streamed, "UnsupportedOperation"))
}

func sendUnknownTask(p *Peer) error {
	_, err := p.task(say("hello").to(&Task{ID: NewID()}))
	return p.refused(err, "TaskNotFound")
}

func sendNoParts(p *Peer) error {
	message := say("")
	message.Parts = []Part{}
	_, err := p.task(message)
	return p.refused(err, "InvalidParams")
}

// --- Push configurations ---

func (p *Peer) hooked(check func(task *Task) error) error {
	task, err := p.started("book a table")
	if err != nil {
		return err
	}
	defer func() { _, _ = p.Cancel(p.ctx, task.ID) }()
	return check(task)
}

func pushSet(p *Peer) error {
	return p.hooked(func(task *Task) error {
		id, err := p.SetHook(p.ctx, task.ID, "mine", hook)
		if err != nil {
			return err
		}
		listed, err := p.Hooks(p.ctx, task.ID)
		return all(err, equal("id", id, "mine"), equal("listed", listed, []string{"mine " + hook}))
	})
}

func pushDelete(p *Peer) error {
	return p.hooked(func(task *Task) error {
		for _, id := range []string{"one", "two"} {
			if _, err := p.SetHook(p.ctx, task.ID, id, hook); err != nil {
				return err
			}
		}
		for range 2 {
			if err := p.DeleteHook(p.ctx, task.ID, "one"); err != nil {
				return err
			}
		}
		listed, err := p.Hooks(p.ctx, task.ID)
		return all(err, equal("listed", listed, []string{"two " + hook}))
	})
}

func pushUnknown(p *Peer) error {
	_, err := p.SetHook(p.ctx, NewID(), "mine", hook)
	return p.refused(err, "TaskNotFound")
}

func pushUnsupported(p *Peer) error {
	plain, err := p.dial(p.ctx, p.base+"/agents/plain", p.binding)
	if err != nil {
		if p.binding == "GRPC" {
			return NotExpressible("0.3 cannot say which of the agents at one gRPC address is meant")
		}
		return err
	}
	other := &Peer{plain, p.base, p.binding, p.dial, p.ctx}
	task, err := other.settled()
	if err != nil {
		return err
	}
	_, err = plain.SetHook(p.ctx, task.ID, "mine", hook)
	return p.refused(err, "PushNotificationNotSupported")
}
