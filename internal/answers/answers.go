// Package answers bounds how much memory the answers of the API server take that reconciles and plans hold at the same time. Others choose how long an
// object is, and a short text can decode into many times its length.
package answers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// FreeBytes is the length up to which an answer costs nothing: it never waits for long answers.
	FreeBytes = 64 << 10
	// BudgetBytes is what all long answers take at most at the same time, beyond FreeBytes of each. An object decodes into up to 24 times as many bytes.
	BudgetBytes = 4 << 20
	// waitTime is how long a holder waits at most for its turn, and then for room.
	waitTime = 10 * time.Second
	// step is by how many bytes a claim on the budget grows.
	step = 64 << 10
)

// ErrNoRoom is the error of a request whose answer has found no room in the budget.
var ErrNoRoom = errors.New("the answers that are held already leave no room for a long answer of the API server; retrying")

// ErrTooLong is the error of a request beyond the limit of its context.
var ErrTooLong = errors.New("the answers of the API server are longer than their limit")

// Budget is the memory for long answers. A holder takes the room that it finds. Among the holders without room, a single holder has the turn, and waits for
// room with the bytes that it holds. Another holder waits for the turn if it holds nothing, and fails at once if it holds something. So no two holders wait
// for each other, and the holder with the turn gets room as the others end.
type Budget struct{ room, turn *semaphore.Weighted }

// New returns a budget of BudgetBytes.
func New() *Budget {
	return &Budget{room: semaphore.NewWeighted(BudgetBytes), turn: semaphore.NewWeighted(1)}
}

// holder has the bytes of the budget that the answers of one reconcile, or of a part of it, hold. It sends its requests one after the other.
type holder struct {
	budget *Budget
	// whole is the holder that this one is a part of, nil for none.
	whole *holder

	mu   sync.Mutex
	held int64
	// hasTurn is true if the holder has taken the turn, which a part takes for the whole.
	hasTurn bool
}

// holderKey is the key of the holder in a context.
type holderKey struct{}

// Hold returns a context in whose requests long answers count, until release is called. Within another Hold, the inner one releases its own part. A nil
// Budget bounds nothing.
func (b *Budget) Hold(ctx context.Context) (held context.Context, release func()) {
	if b == nil {
		return ctx, func() {}
	}
	whole, _ := ctx.Value(holderKey{}).(*holder)
	h := &holder{budget: b, whole: whole}
	return context.WithValue(ctx, holderKey{}, h), h.release
}

// HoldPart returns a context for a part of the work of a Hold, whose answers are released with the part. Without a Hold, it bounds nothing.
func HoldPart(ctx context.Context) (held context.Context, release func()) {
	whole, ok := ctx.Value(holderKey{}).(*holder)
	if !ok {
		return ctx, func() {}
	}
	return whole.budget.Hold(ctx)
}

// limitKey is the key of the bytes that are left in a context of Limit.
type limitKey struct{}

// Limit returns a context whose requests read a number of bytes together at most. The request that reads more fails with ErrTooLong.
func Limit(ctx context.Context, most int64) context.Context {
	left := &atomic.Int64{}
	left.Store(most)
	return context.WithValue(ctx, limitKey{}, left)
}

// holds returns the number of bytes of the holder and of the whole.
func (h *holder) holds() int64 {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held + h.whole.holds()
}

// release returns the bytes and the turn of the holder to the budget. A second call returns nothing.
func (h *holder) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.budget.room.Release(h.held)
	h.held = 0
	if h.hasTurn {
		h.hasTurn = false
		h.budget.turn.Release(1)
	}
}

// grow takes bytes of the budget for an answer. It waits for a while if others hold the room.
func (h *holder) grow(ctx context.Context, n int64) error {
	held := h.holds()
	if held+n > BudgetBytes {
		return ErrNoRoom
	}
	if !h.budget.room.TryAcquire(n) {
		if err := h.awaitRoom(ctx, n, held > 0); err != nil {
			return fmt.Errorf("%w: %w", ErrNoRoom, err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held += n
	return nil
}

// errOthersFirst is the error of a holder that holds room which another one may wait for.
var errOthersFirst = errors.New("another reconcile waits for the room that this one holds")

// awaitRoom takes bytes that are not free yet, in the turn of the holder.
func (h *holder) awaitRoom(ctx context.Context, n int64, hasRoom bool) error {
	first := h
	for first.whole != nil {
		first = first.whole
	}
	if err := first.takeTurn(ctx, hasRoom); err != nil {
		return err
	}
	return acquire(ctx, h.budget.room, n)
}

// takeTurn has the holder have the turn until its release. If another holder has the turn, takeTurn fails at once for a holder with room, and waits for a
// while for a holder without room.
func (h *holder) takeTurn(ctx context.Context, hasRoom bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hasTurn {
		return nil
	}
	if !h.budget.turn.TryAcquire(1) {
		if hasRoom {
			return errOthersFirst
		}
		if err := acquire(ctx, h.budget.turn, 1); err != nil {
			return err
		}
	}
	h.hasTurn = true
	return nil
}

// acquire acquires a part of a semaphore within waitTime.
func acquire(ctx context.Context, from *semaphore.Weighted, n int64) error {
	bounded, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	return from.Acquire(bounded, n)
}

// Wrap returns a transport that counts the answers to the requests of a Hold and of a Limit.
func (b *Budget) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err != nil || resp.Body == nil {
			return resp, err
		}
		if left, ok := req.Context().Value(limitKey{}).(*atomic.Int64); ok {
			resp.Body = &limited{ReadCloser: resp.Body, left: left}
		}
		if h, ok := req.Context().Value(holderKey{}).(*holder); ok {
			resp.Body = &counted{ReadCloser: resp.Body, ctx: req.Context(), holder: h, room: FreeBytes}
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// limited is the body of an answer within a limit.
type limited struct {
	io.ReadCloser
	left *atomic.Int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.left.Add(-int64(n)) < 0 {
		return 0, ErrTooLong
	}
	return n, err
}

// counted is the body of an answer. It takes room in the budget as it is read.
type counted struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // That of the request, as the body's reads have none.
	holder *holder
	// room is how many bytes can be read before the claim grows.
	room int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p[:min(len(p), step)])
	if int64(n) > c.room {
		if err := c.holder.grow(c.ctx, step); err != nil {
			return 0, err
		}
		c.room += step
	}
	c.room -= int64(n)
	return n, err
}
