// Peer is upstream's own PLEG as a program that can be asked to relist.
//
// It imports upstream's GenericPLEG, its runtime manager and its CRI client, puts them together as the kubelet does, and
// does nothing of their work itself. The benchmark and the comparison of histories ask all peers, in Go and in Python,
// the same questions: one JSON object per line on standard input, one line of answer each. The questions and the
// answers' fields are explained once for all peers in src/trikubelet/benchmark/peers/protocol.py.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

type question struct {
	Do         string   `json:"do"`
	Sandboxes  []string `json:"sandboxes"`
	Containers []string `json:"containers"`
	Fail       []string `json:"fail"`
}

func main() {
	socket := flag.String("socket", "", "CRI socket to relist over")
	fromFiles := flag.Bool("bytes", false, "relist what the list replies in files say, and inspect nothing")
	streaming := flag.Bool("streaming", false, "ask for streamed lists, as the gate CRIListStreaming does")
	flag.Parse()
	if err := run(*socket, *fromFiles, *streaming); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(socket string, fromFiles, streaming bool) error {
	if (socket == "") != fromFiles {
		return fmt.Errorf("give either --socket PATH or --bytes")
	}
	directory, err := os.MkdirTemp("", "peer-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	node, err := newNode(directory, socket, streaming)
	if err != nil {
		return err
	}
	answers := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return fmt.Errorf("not a question: %w", err)
		}
		if asked.Do == "quit" {
			return nil
		}
		answer, err := node.answer(asked)
		if err != nil {
			return err
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (n *node) answer(asked question) (any, error) {
	switch {
	case asked.Do == "relist" && n.replies == nil:
		return n.relist(), nil
	case asked.Do == "observe" && n.replies != nil:
		if err := n.replies.load(asked.Sandboxes, asked.Containers); err != nil {
			return nil, err
		}
		n.runtime.fail = asked.Fail
		answer := n.relist()
		return answer, n.replies.load(nil, nil) // a client does not keep what it has received either
	case asked.Do == "events":
		return n.takeEvents(), nil
	case asked.Do == "forget":
		return n.forgetEvents(), nil
	case asked.Do == "memory":
		return memory()
	}
	return nil, fmt.Errorf("cannot %q here", asked.Do)
}
