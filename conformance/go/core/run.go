package core

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"time"
)

// Longer than anything a case waits for on purpose.
const caseSecondsMax = 25

// notExpressible says that the SDK has no way to ask for this.
type notExpressible struct{ why string }

func (e notExpressible) Error() string { return e.why }

// NotExpressible is the result of a case for which the SDK has no call.
func NotExpressible(why string) error { return notExpressible{why} }

// Case is a check under the name it has in `cases/`.
type Case struct {
	Name string
	Run  func(*Peer) error
}

// Peer is one binding of one server, and the client for it.
type Peer struct {
	Client
	base, binding string
	dial          Dial
	ctx           context.Context
}

// Main runs all cases over the bindings of an SDK, and prints a line for each.
func Main(bindings []string, dial Dial) {
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	binding := flag.String("binding", "", "only this binding")
	only := flag.String("case", "", "only this case")
	flag.Parse()
	base := strings.TrimSuffix(flag.Arg(0), "/")
	var group sync.WaitGroup
	for _, one := range bindings {
		if *binding == "" || *binding == one {
			group.Add(1)
			go func() {
				defer group.Done()
				runBinding(base, one, *only, dial)
			}()
		}
	}
	group.Wait()
}

var printing sync.Mutex

func report(outcome, binding, name, reason string) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Printf("%s\t%s\t%s\t%s\n", outcome, binding, name, short(reason))
}

func short(text string) string {
	words := strings.Join(strings.Fields(text), " ")
	if len(words) > 300 {
		return words[:300]
	}
	return words
}

func runBinding(base, binding, only string, dial Dial) {
	client, dialError := dial(context.Background(), base, binding)
	for _, one := range Cases {
		if only != "" && only != one.Name {
			continue
		}
		if dialError != nil {
			report("FAIL", binding, one.Name, "no client could be made: "+dialError.Error())
			continue
		}
		outcome, reason := outcomeOf(&Peer{client, base, binding, dial, nil}, one)
		report(outcome, binding, one.Name, reason)
	}
}

func outcomeOf(peer *Peer, one Case) (outcome, reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), caseSecondsMax*time.Second)
	defer cancel()
	peer.ctx = ctx
	defer func() {
		if panicked := recover(); panicked != nil {
			outcome, reason = "FAIL", fmt.Sprintf("the client panicked: %v", panicked)
		}
	}()
	err := one.Run(peer)
	var absent notExpressible
	switch {
	case err == nil:
		return "ok", ""
	case errors.As(err, &absent):
		return "n/a", absent.why
	default:
		return "FAIL", err.Error()
	}
}

// equal is nil when the two are the same.
func equal(what string, got, want any) error {
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return fmt.Errorf("%s: got %+v, want %+v", what, got, want)
}

// all is the first error of several checks.
func all(checks ...error) error {
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// refused is nil when a call failed with one of these errors, as the SDK names it.
func (p *Peer) refused(err error, names ...string) error {
	if err == nil {
		return fmt.Errorf("expected %v, got an answer", names)
	}
	got := p.ErrorName(err)
	for _, name := range names {
		if got == name {
			return nil
		}
	}
	return fmt.Errorf("expected %v, got %q: %w", names, got, err)
}
