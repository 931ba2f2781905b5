package answers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// zeros are the bytes of all answers.
var zeros = make([]byte, 16<<20)

// answering is a transport whose answers have a number of bytes.
func answering(n int) http.RoundTripper {
	return roundTripper(func(*http.Request) (*http.Response, error) {
		// Without io.WriterTo, the reader is read in parts.
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.LimitReader(bytes.NewReader(zeros), int64(n)))}, nil
	})
}

// read reads an answer in a context, and returns its length.
func read(ctx context.Context, t *testing.T, through http.RoundTripper) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := through.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	n, err := io.Copy(io.Discard, resp.Body)
	return int(n), err
}

// TestBudget has answers of many lengths at once, and counts what is held.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		for name, c := range map[string]struct {
			length int
			fits   bool
		}{
			"nothing":             {0, true},
			"free":                {FreeBytes, true},
			"just not free":       {FreeBytes + 1, true},
			"an object":           {1500 << 10, true},
			"all of the budget":   {FreeBytes + BudgetBytes, true},
			"more than the whole": {FreeBytes + BudgetBytes + 1, false},
		} {
			ctx, release := b.Hold(t.Context())
			n, err := read(ctx, t, b.Wrap(answering(c.length)))
			if c.fits != (err == nil) || !c.fits && !errors.Is(err, ErrNoRoom) || c.fits && n != c.length {
				t.Errorf("%s: %d bytes, %v", name, n, err)
			}
			release()
			release() // Nothing is given back twice.
		}
		ctx, release := b.Hold(t.Context())
		began := time.Now()
		for _, want := range []bool{true, false} { // What does not fit next to the holder's own answers is refused at once.
			if _, err := read(ctx, t, b.Wrap(answering(3<<20))); want != (err == nil) || time.Since(began) != 0 {
				t.Errorf("fits: %t, %v after %s", want, err, time.Since(began))
			}
		}
		release()
		if !b.room.TryAcquire(BudgetBytes) {
			t.Fatal("not all was given back")
		}
		// All is held: short answers and requests without a Hold do not wait.
		ctx, release = b.Hold(t.Context())
		defer release()
		began = time.Now()
		if _, err := read(ctx, t, b.Wrap(answering(FreeBytes))); err != nil {
			t.Error(err)
		}
		if _, err := read(t.Context(), t, b.Wrap(answering(2*BudgetBytes))); err != nil {
			t.Error(err)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("they waited for %s", waited)
		}
		if _, err := read(ctx, t, b.Wrap(answering(FreeBytes+1))); !errors.Is(err, ErrNoRoom) || time.Since(began) != waitTime {
			t.Errorf("a long answer: %v, after %s", err, time.Since(began))
		}
	})
}

// reading has the answers that one reconcile reads. Those of the parts are released one by one.
type reading struct{ whole, parts []int }

// readAll reads the answers of a reconcile, and works for a time with each.
func (r reading) readAll(t *testing.T, b *Budget, work time.Duration) error {
	ctx, release := b.Hold(t.Context())
	defer release()
	for _, length := range r.whole {
		if _, err := read(ctx, t, b.Wrap(answering(length))); err != nil {
			return err
		}
		<-time.After(work)
	}
	for _, length := range r.parts {
		part, end := HoldPart(ctx)
		_, err := read(part, t, b.Wrap(answering(length)))
		<-time.After(work)
		end()
		if err != nil {
			return err
		}
	}
	return nil
}

// TestHoldersTakeTurns has reconciles read long answers, and tries each again until it succeeds, all after the same time, so that those that meet once meet
// again. All of them succeed, whatever they read: one after the other has the turn, and each may take as long as some tries of the others.
func TestHoldersTakeTurns(t *testing.T) {
	const most, again = 20, time.Second
	drawn := func(random *rand.Rand) []reading {
		readings := make([]reading, 2+random.IntN(most-1))
		for i := range readings {
			left := FreeBytes + BudgetBytes
			for range random.IntN(4) {
				length := random.IntN(left)
				readings[i].whole, left = append(readings[i].whole, length), left-length
			}
			for range random.IntN(4) {
				readings[i].parts = append(readings[i].parts, random.IntN(left))
			}
		}
		return readings
	}
	same := func(n int, r reading) func(*rand.Rand) []reading {
		return func(*rand.Rand) []reading { return slices.Repeat([]reading{r}, n) }
	}
	for name, c := range map[string]struct {
		draw  func(*rand.Rand) []reading
		times int
	}{
		"two answers":    {same(most, reading{whole: []int{1500 << 10, 1500 << 10}}), 5},
		"all there is":   {same(most, reading{whole: []int{FreeBytes + BudgetBytes}}), 5},
		"steps":          {same(most, reading{whole: slices.Repeat([]int{FreeBytes + step}, BudgetBytes/step)}), 2},
		"parts":          {same(most, reading{parts: []int{3 << 20, 3 << 20, 3 << 20}}), 5},
		"whole and part": {same(most, reading{whole: []int{1500 << 10}, parts: []int{2 << 20}}), 5},
		"drawn":          {drawn, 50},
	} {
		for seed := range c.times {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := New()
					var group sync.WaitGroup
					readings := c.draw(rand.New(rand.NewPCG(uint64(seed), 1)))
					for _, r := range readings {
						group.Go(func() {
							tries := 1
							for r.readAll(t, b, time.Second) != nil && tries < most*most {
								<-time.After(again)
								tries++
							}
							if tries == most*most {
								t.Errorf("no room in %d tries, of %d reconciles", tries, len(readings))
							}
						})
					}
					group.Wait()
					if !b.room.TryAcquire(BudgetBytes) || !b.turn.TryAcquire(1) {
						t.Error("not all was given back")
					}
				})
			})
		}
	}
}

// TestParts releases the answers of a part of the work with the part.
func TestParts(t *testing.T) {
	b := New()
	ctx, release := b.Hold(t.Context())
	defer release()
	for range 10 {
		part, end := HoldPart(ctx)
		if _, err := read(part, t, b.Wrap(answering(1500<<10))); err != nil {
			t.Fatal(err)
		}
		end()
	}
	if part, end := HoldPart(t.Context()); part != t.Context() {
		t.Error("there is a part without a Hold")
	} else {
		end()
	}
	var none *Budget
	if _, end := none.Hold(t.Context()); end == nil {
		t.Error("no budget")
	}
}

// TestLimit reads answers in a context with a limit: they count together, and the one that goes beyond the limit fails.
func TestLimit(t *testing.T) {
	b := New()
	for name, c := range map[string]struct {
		most    int64
		lengths []int
		fit     int
	}{
		"below":         {100, []int{40, 59}, 2},
		"at the limit":  {100, []int{40, 60}, 2},
		"beyond":        {100, []int{40, 61}, 1},
		"long answers":  {5 << 20, []int{2 << 20, 2 << 20, 2 << 20}, 2},
		"one too long":  {1 << 20, []int{2 << 20}, 0},
		"empty answers": {0, []int{0, 0}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := Limit(t.Context(), c.most)
			for i, length := range c.lengths {
				held, release := b.Hold(ctx)
				n, err := read(held, t, b.Wrap(answering(length)))
				release()
				if fits := i < c.fit; fits != (err == nil) || fits && n != length || !fits && !errors.Is(err, ErrTooLong) {
					t.Errorf("answer %d of %d bytes: %d bytes, %v", i, length, n, err)
				}
			}
		})
	}
	if n, err := read(Limit(t.Context(), 10), t, b.Wrap(answering(11))); !errors.Is(err, ErrTooLong) {
		t.Errorf("without a Hold: %d bytes, %v", n, err)
	}
}
