// Package behaviour is what the agents in Go do: the first word of a message decides, as in
// `servers/agents/behaviour.py`.
package behaviour

import (
	"fmt"
	"iter"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"conformance/core"
)

// ChunkPause is the time between two chunks of `slow`.
const ChunkPause = 300 * time.Millisecond

var raw = []byte("bytes \x00\xff\x1b of a file")

// Step is one thing an agent does. Kind is task, status, artifact, message, sleep or hold.
type Step struct {
	Kind, State, Text string
	Artifact          core.Artifact
	Append, LastChunk bool
}

func status(state, text string) Step { return Step{Kind: "status", State: state, Text: text} }

func artifact(name string, parts ...core.Part) Step {
	return Step{Kind: "artifact", Artifact: core.Artifact{ID: name + "-1", Name: name, Parts: parts}, LastChunk: true}
}

func text(words string) core.Part { return core.Part{Kind: "text", Text: words} }

// Steps are the steps of one turn. answering is whether the task waits for this message; base is where files are.
func Steps(said string, answering bool, base string) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		for _, step := range steps(strings.TrimSpace(said), answering, base) {
			if !yield(step) {
				return
			}
		}
	}
}

func steps(said string, answering bool, base string) []Step {
	word, rest, _ := strings.Cut(said, " ")
	if answering {
		return []Step{status("working", ""), artifact("answer", text(said)), status("completed", "thank you")}
	}
	if word == "message" {
		if rest == "" {
			rest = "a direct message"
		}
		return []Step{{Kind: "message", Text: rest}}
	}
	made := []Step{{Kind: "task"}, status("working", "")}
	switch word {
	case "slow":
		count, err := strconv.Atoi(rest)
		if err != nil {
			count = 3
		}
		for number := 1; number <= count; number++ {
			chunk := artifact("slow", text(fmt.Sprintf("chunk %d ", number)))
			chunk.Append, chunk.LastChunk = number > 1, number == count
			made = append(made, Step{Kind: "sleep"}, chunk)
		}
		return append(made, status("completed", ""))
	case "ask":
		return append(made, status("input-required", "Which city?"))
	case "auth":
		return append(made, status("auth-required", "Log in at https://login.example and say when you have"))
	case "fail":
		return append(made, status("failed", "it did not work"))
	case "reject":
		return append(made, status("rejected", "not my trade"))
	case "files":
		return append(made, artifact(
			"files", text("one of each"),
			core.Part{Kind: "raw", Raw: raw, Name: "raw.bin", MediaType: "application/octet-stream"},
			core.Part{Kind: "url", URL: base + "/files/paper.txt", Name: "paper.txt", MediaType: "text/plain"},
			core.Part{Kind: "data", Data: map[string]any{"count": 3, "list": []any{1, "two", true}}},
		), status("completed", ""))
	case "hold":
		return append(made, Step{Kind: "hold"})
	case "echo":
		return append(made, artifact("echo", text(rest)), status("completed", ""))
	}
	return append(made, artifact("echo", text(said)), status("completed", ""))
}

// Order sorts the binding that is to be first before all others, and leaves those as they are.
func Order(first, one, other string) int {
	switch first {
	case one:
		return -1
	case other:
		return 1
	}
	return 0
}

// Ends says whether a stream of 0.3 ends with this state.
func Ends(state string) bool { return state != "working" }

// NewState is the 1.0 name of a state.
func NewState(name string) string {
	return "TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Paper is the file that `files` names by its address.
func Paper(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write([]byte("the text of the paper\n"))
}

// Serve serves HTTP and gRPC on two ports of loopback until the process ends.
func Serve(handler http.Handler, httpPort int, serveGRPC func(net.Listener) error, grpcPort int) {
	listen := func(port int) net.Listener {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			log.Fatal(err)
		}
		return listener
	}
	grpcListener, httpListener := listen(grpcPort), listen(httpPort)
	go func() { log.Fatal(serveGRPC(grpcListener)) }()
	log.Fatal(http.Serve(httpListener, handler))
}
