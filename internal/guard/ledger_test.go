package guard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
)

func address(n int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", n/250, n%250+1)) }

// holding is a claim of a test: what it holds, and of whom.
type holding struct {
	from   int
	amount int64
	inUse  bool
}

// TestLedger has a claim grow in a ledger of 1,600, where an address has 400 at most and the unproven ones 800 together. The addresses from
// 100 on are proven.
func TestLedger(t *testing.T) {
	for name, c := range map[string]struct {
		held []holding
		from int
		// own is what the claim holds already.
		own, more int64
		fits      bool
		// lost are the indexes of held that are taken back.
		lost []int
	}{
		"first":                                 {nil, 1, 0, 100, true, nil},
		"share of an address, at the limit":     {nil, 1, 0, 400, true, nil},
		"share of an address, beyond":           {nil, 1, 0, 401, false, nil},
		"grows beyond":                          {nil, 1, 400, 1, false, nil},
		"own larger one":                        {[]holding{{1, 350, false}}, 1, 0, 100, true, []int{0}},
		"own smaller one":                       {[]holding{{1, 50, false}}, 1, 300, 100, false, nil},
		"own one in use":                        {[]holding{{1, 350, true}}, 1, 0, 100, false, nil},
		"oldest of equal ones":                  {[]holding{{1, 100, false}, {1, 100, false}, {1, 100, false}, {1, 100, false}}, 1, 0, 100, true, []int{0}},
		"two addresses fill the unproven share": {[]holding{{1, 400, false}, {2, 400, false}}, 3, 0, 1, true, []int{0}},
		"largest address loses":                 {[]holding{{1, 100, false}, {1, 100, false}, {2, 300, false}, {3, 300, false}}, 4, 0, 10, true, []int{2}},
		"largest claim of the address loses":    {[]holding{{1, 100, false}, {1, 300, false}, {2, 399, false}}, 4, 0, 10, true, []int{1}},
		"nobody holds more":                     {[]holding{{1, 200, false}, {2, 200, false}, {3, 200, false}}, 4, 150, 200, false, nil},
		"all in use":                            {[]holding{{1, 400, true}, {2, 400, true}}, 3, 0, 1, false, nil},
		"proven has its half":                   {[]holding{{1, 400, true}, {2, 400, true}}, 100, 0, 400, true, nil},
		"proven never loses to unproven":        {[]holding{{1, 400, true}, {2, 400, true}, {100, 300, false}}, 3, 0, 10, false, nil},
		"proven have all but one byte":          {[]holding{{100, 400, false}, {101, 400, false}, {102, 400, false}, {103, 399, false}}, 1, 0, 2, false, nil},
		"proven take from proven":               {[]holding{{100, 400, false}, {101, 400, true}, {102, 400, true}, {103, 400, true}}, 104, 0, 10, true, []int{0}},
		"one is enough":                         {[]holding{{1, 400, false}, {2, 400, false}}, 3, 0, 350, true, []int{0}},
		"two are lost":                          {[]holding{{1, 100, false}, {1, 100, false}, {1, 100, false}, {2, 400, true}, {1, 100, false}}, 3, 0, 150, true, []int{0, 1}},
		"none is lost in vain":                  {[]holding{{1, 200, false}, {1, 200, false}, {2, 400, true}}, 3, 0, 350, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(1600, func(a netip.Addr) bool { return a.Compare(address(100)) >= 0 })
			var lost []int
			for i, h := range c.held {
				held := l.openClaim(address(h.from), func() { lost = append(lost, i) })
				held.amount, held.inUse = h.amount, h.inUse
			}
			own := l.openClaim(address(c.from), func() { t.Error("the claim itself was taken back") })
			own.amount = c.own
			if fits := l.growClaim(own, c.more); fits != c.fits || fmt.Sprint(lost) != fmt.Sprint(c.lost) {
				t.Errorf("fits: %v, want %v; lost: %v, want %v", fits, c.fits, lost, c.lost)
			}
		})
	}
}

// TestLedgerWaits has claims wait for those in use. The address that holds least comes first.
func TestLedgerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(1600, func(netip.Addr) bool { return false })
		hold := func(from int, amount int64) *claim {
			c := l.openClaim(address(from), func() {})
			if !l.useClaim(t.Context(), c, amount) {
				t.Fatalf("%d of %d do not fit", amount, from)
			}
			return c
		}
		first, other := hold(1, 400), hold(2, 400)
		var granted []string
		wait := func(ctx context.Context, name string, from int, amount int64) {
			go func() {
				if l.useClaim(ctx, l.openClaim(address(from), func() {}), amount) {
					granted = append(granted, name)
				} else {
					granted = append(granted, "not "+name)
				}
			}()
			synctest.Wait()
		}
		given, giveUp := context.WithCancel(t.Context())
		wait(t.Context(), "large", 2, 300)
		wait(t.Context(), "small", 3, 100)
		wait(given, "given up", 4, 100)
		if len(granted) > 0 {
			t.Fatalf("granted: %v", granted)
		}
		giveUp()
		synctest.Wait()
		l.endClaim(first)
		synctest.Wait()
		l.endClaim(other)
		synctest.Wait()
		if want := "[not given up small large]"; fmt.Sprint(granted) != want {
			t.Errorf("granted: %v, want %s", granted, want)
		}
		if len(l.waiting) > 0 {
			t.Errorf("%d still wait", len(l.waiting))
		}
	})
}

// TestLedgerNeverExceeds makes random claims. No share is ever exceeded, and in the end nothing is held.
func TestLedgerNeverExceeds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	proven := func(a netip.Addr) bool { return a.Compare(address(5)) >= 0 }
	l := newLedger(1000, proven)
	var open []*claim
	for range 5000 {
		switch {
		case len(open) < 3 || r.IntN(3) == 0:
			open = append(open, l.openClaim(address(r.IntN(8)), func() {}))
		case r.IntN(3) == 0:
			i := r.IntN(len(open))
			l.endClaim(open[i])
			open = append(open[:i], open[i+1:]...)
		default:
			c := open[r.IntN(len(open))]
			if l.growClaim(c, r.Int64N(120)) && r.IntN(3) == 0 {
				l.useClaim(t.Context(), c, 0)
			}
		}
		var all, unproven int64
		for from, held := range l.heldByAddress() {
			all += held
			if !proven(from) {
				unproven += held
			}
			if held > 250 {
				t.Fatalf("%s holds %d", from, held)
			}
		}
		if all > 1000 || unproven > 500 {
			t.Fatalf("all hold %d, the unproven ones %d", all, unproven)
		}
	}
	for _, c := range open {
		l.endClaim(c)
		l.endClaim(c)
	}
	if len(l.claims) > 0 {
		t.Errorf("%d claims are left", len(l.claims))
	}
}
