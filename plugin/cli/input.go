package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// contextReader reads a stream until a context ends, also while the stream has nothing to read.
type contextReader struct {
	ctx  context.Context //nolint:containedctx // It ends the reads.
	from io.Reader
}

// Read implements io.Reader. What a read of the stream returns after the end of the context is lost.
func (r contextReader) Read(into []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	var n int
	var err error
	part, done := make([]byte, len(into)), make(chan struct{})
	go func() {
		defer close(done)
		n, err = r.from.Read(part)
	}()
	select {
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	case <-done:
		return copy(into, part[:n]), err
	}
}

// askConfirmation lets the user confirm a question. Without a terminal, --yes is required. The end of the context is no answer, and an error.
func (r *root) askConfirmation(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if _, _, terminal := sizeOf(r.In); !terminal {
		return fmt.Errorf("%s There is no terminal to ask: add --yes", question)
	}
	return r.readConfirmation(ctx, question)
}

// readConfirmation prints a question, and returns an error unless the answer is yes.
func (r *root) readConfirmation(ctx context.Context, question string) error {
	fmt.Fprint(r.Err, question+" [y/N] ")
	answer, err := bufio.NewReader(contextReader{ctx, r.In}).ReadString('\n')
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(r.Err) // The line of the question ends.
		return ctx.Err()
	case err == nil && slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))):
		return nil
	}
	return &exit{code: 1, text: "nothing was changed"}
}
