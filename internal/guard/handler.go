package guard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// The sizes of the buffers for a body, in bytes. Each buffer is twice as long as the previous one, so that an unfinished request holds at
// most twice the bytes that it has sent, plus firstBuffer.
const firstBuffer, lastBuffer = 2 << 10, 64 << 10

// ServeHTTP implements http.Handler. It reads the body, and handles the request once the budget has room for it.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		g.refuseRequest(w, refusedBroken)
		return
	}
	held := g.bodies.openClaim(c.from, c.interruptRead)
	defer g.bodies.endClaim(held)
	read, wrong := g.receiveBody(held, r)
	if wrong == nil {
		// All has arrived. The deadline of reading, which would end the request's context, stays for a body that is refused: net/http reads
		// on for a while.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		wrong = g.makeRoom(r.Context(), held, read)
	}
	if wrong == nil && !g.conns.useClaim(r.Context(), c.claim, 0) {
		wrong = refusedConnection
	}
	if wrong != nil {
		g.refuseRequest(w, wrong)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.limits.Answer)
	defer cancel()
	r = r.WithContext(ctx)
	if read.length > 0 {
		r.Body, r.ContentLength = io.NopCloser(io.MultiReader(read.parts...)), read.length
	}
	g.next.ServeHTTP(w, r)
}

// body is the body of a request that has arrived.
type body struct {
	parts  []io.Reader
	length int64
	values jsonValues
}

// makeRoom waits until there is room to handle a body.
func (g *guard) makeRoom(ctx context.Context, held *claim, read *body) *refusal {
	if read.length == 0 {
		return nil
	}
	cost := g.limits.bodyCost(read.length, read.values.count)
	if cost > g.limits.Share() {
		return refusedSize
	}
	ctx, cancel := context.WithTimeout(ctx, g.limits.Arrival)
	defer cancel()
	if !g.bodies.useClaim(ctx, held, max(0, cost-held.amount)) {
		return refusedBudget
	}
	return nil
}

// receiveBody reads the body of a request. The claim grows with it.
func (g *guard) receiveBody(held *claim, r *http.Request) (*body, *refusal) {
	read, begun := &body{}, false
	if r.ContentLength > g.limits.Body {
		return nil, refusedSize
	}
	if r.Body == nil || r.Body == http.NoBody {
		return read, nil
	}
	for size := int64(firstBuffer); ; size = min(2*size, lastBuffer) {
		// One byte more shows the end of the body, or that it is too long.
		size = min(size, g.limits.Body-read.length+1)
		if r.ContentLength > 0 {
			size = min(size, r.ContentLength-read.length+1)
		}
		if g.limits.Body > 0 && !g.bodies.growClaim(held, size) {
			return nil, refusedBudget
		}
		buffer := make([]byte, size)
		n, err := fillBuffer(buffer, r.Body)
		if !begun && g.limits.Objects {
			if first := bytes.TrimLeft(buffer[:n], " \t\r\n"); len(first) > 0 {
				if begun = true; first[0] != '{' { // The decoder of reviews takes any other body for YAML, which the budget cannot count.
					return nil, refusedForm
				}
			}
		}
		read.length += int64(n)
		read.values.countPart(buffer[:n])
		read.parts = append(read.parts, bytes.NewReader(buffer[:n]))
		switch {
		case read.length > g.limits.Body:
			return nil, refusedSize
		case err == io.EOF: //nolint:errorlint // A body that was cut off ends with another error, which may wrap this one.
			return read, nil
		case err != nil:
			return nil, g.readError(held, err)
		}
	}
}

// fillBuffer reads until a buffer is full. Unlike io.ReadFull, it returns the error of the reader unchanged.
func fillBuffer(buffer []byte, from io.Reader) (n int, err error) {
	for n < len(buffer) && err == nil {
		var read int
		read, err = from.Read(buffer[n:])
		n += read
	}
	return n, err
}

// readError returns the refusal of a body that cannot be read.
func (g *guard) readError(held *claim, err error) *refusal {
	select {
	case <-held.takenBack:
		return refusedBudget
	default:
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refusedTime
	}
	return refusedBroken
}

// refuseRequest answers a request that is not handled, and has the connection closed.
func (g *guard) refuseRequest(w http.ResponseWriter, wrong *refusal) {
	w.Header().Set("Connection", "close")
	g.reportRefused(wrong.reason)
	http.Error(w, wrong.message, wrong.status)
}
