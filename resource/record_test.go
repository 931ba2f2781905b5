package resource

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	appv1 "huolala.cn/app-operator/api/v1"
)

// specOf returns a spec whose JSON has the given length.
func specOf(t testing.TB, length int, text func(int) string) *appv1.AppSpec {
	t.Helper()
	spec := &appv1.AppSpec{}
	spec.Image = "nginx"
	spec.Args = []string{""}
	spec.Args[0] = text(length - len(canonicalJSON(spec)))
	if got := len(canonicalJSON(spec)); got != length {
		t.Fatalf("the spec has %d bytes, want %d", got, length)
	}
	return spec
}

func compressible(n int) string { return strings.Repeat("a", n) }

// TestRecord walks over the limits of plain, compressed and hashed records.
func TestRecord(t *testing.T) {
	for name, c := range map[string]struct {
		spec   *appv1.AppSpec
		prefix string
		whole  bool
	}{
		"short":                        {specOf(t, 100, compressible), "{", true},
		"the longest plain":            {specOf(t, recordPlain, compressible), "{", true},
		"the shortest compressed":      {specOf(t, recordPlain+1, compressible), gzipPrefix, true},
		"compresses badly":             {specOf(t, recordPlain+1, padding), gzipPrefix, true},
		"long, but compresses well":    {specOf(t, 300_000, compressible), gzipPrefix, true},
		"too long":                     {specOf(t, 300_000, padding), hashPrefix, false},
		"compressed to about the most": {specOf(t, 170_000, padding), gzipPrefix, true},
	} {
		t.Run(name, func(t *testing.T) {
			record, whole := recordOf(c.spec)
			if !strings.HasPrefix(record, c.prefix) || whole != c.whole || len(record) > recordMax {
				t.Fatalf("record of %d bytes begins with %q, whole is %t; want %q, %t", len(record), record[:8], whole, c.prefix, c.whole)
			}
			if again, _ := recordOf(c.spec.DeepCopy()); again != record {
				t.Error("the same spec gives another record")
			}
			var got appv1.AppSpec
			switch err := DecodeSpec(record, &got); {
			case !c.whole:
				if !errors.Is(err, ErrNoSpec) {
					t.Errorf("error is %v, want ErrNoSpec", err)
				}
			case err != nil:
				t.Error(err)
			default:
				if diff := cmp.Diff(*c.spec, got); diff != "" {
					t.Errorf("spec (-recorded +read):\n%.500s", diff)
				}
			}
			if changed, err := appChanged(c.spec, record); changed || err != nil {
				t.Errorf("the spec has changed against its own record: %t, %v", changed, err)
			}
			other := c.spec.DeepCopy()
			other.Image = "nginx:2"
			if changed, err := appChanged(other, record); !changed || err != nil {
				t.Errorf("another image is no change: %t, %v", changed, err)
			}
		})
	}
}

// TestRecordLimit checks that no length in the range where compressed records become too long slips through.
func TestRecordLimit(t *testing.T) {
	hashed := 0
	for length := 150_000; length < 250_000; length += 10_000 {
		record, whole := recordOf(specOf(t, length, padding))
		if len(record) > recordMax {
			t.Errorf("the record of %d bytes has %d, want %d at most", length, len(record), recordMax)
		}
		if !whole {
			hashed++
		}
	}
	if hashed == 0 || hashed == 10 {
		t.Errorf("%d of 10 records are hashed; the limit is not within the range any more", hashed)
	}
}

func zip(t *testing.T, text []byte) string {
	t.Helper()
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return gzipPrefix + base64.StdEncoding.EncodeToString(zipped.Bytes())
}

// TestUnreadableRecord has what becomes of an annotation that anyone can edit. It must neither pass nor take the
// operator's memory.
func TestUnreadableRecord(t *testing.T) {
	whole := zip(t, []byte(`{"image":"nginx"}`))
	for name, record := range map[string]string{
		"empty":               "",
		"no JSON":             "what?",
		"cut":                 `{"image":`,
		"a list":              "[]",
		"invalid quantity":    `{"image":"a","resources":{"limits":{"cpu":"1 core"}}}`,
		"another type":        `{"image":1}`,
		"no base64":           gzipPrefix + "%%%",
		"no gzip":             gzipPrefix + base64.StdEncoding.EncodeToString([]byte("plain")),
		"nothing compressed":  gzipPrefix,
		"cut, compressed":     whole[:len(whole)-8],
		"no JSON, compressed": zip(t, []byte("what?")),
		"no hash":             hashPrefix,
		"too short a hash":    hashPrefix + "00",
		"not a hash":          hashPrefix + strings.Repeat("G", 64),
		"a bomb":              zip(t, append([]byte(`{"image":"`), make([]byte, 8<<20)...)),
	} {
		t.Run(name, func(t *testing.T) {
			var spec appv1.AppSpec
			if err := DecodeSpec(record, &spec); err == nil || errors.Is(err, ErrNoSpec) {
				t.Errorf("error is %v, want one that says why it is unreadable", err)
			}
			if changed, err := appChanged(&spec, record); changed || err == nil {
				t.Errorf("compared with it, a spec has changed: %t, %v; want an error", changed, err)
			}
		})
	}
}

// TestRecordOfNoApp has records that can be read, and yet no App has ever had such a spec.
func TestRecordOfNoApp(t *testing.T) {
	for _, record := range []string{"null", "{}", `{"replicas":2}`, `{"foo":"bar"}`, zip(t, []byte("{}"))} {
		if changed, err := appChanged(specOf(t, 100, compressible), record); changed || err == nil {
			t.Errorf("compared with %s, a spec has changed: %t, %v; want an error", record, changed, err)
		}
	}
}

// TestBombIsNotUnpacked checks that reading stops at the limit, by the memory that it takes.
func TestBombIsNotUnpacked(t *testing.T) {
	bomb := zip(t, make([]byte, 32<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := DecodeSpec(bomb, &appv1.AppSpec{})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("error is %v, want one that names the limit", err)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 32<<20 {
		t.Errorf("reading a record of %d bytes takes %d", len(bomb), taken)
	}
}

// TestRecordLeavesRoom checks that the record gives way to the user's annotations: together they are never more than an object
// takes.
func TestRecordLeavesRoom(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 1))
	random := func(n int) string {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte('!' + noise.IntN(90))
		}
		return string(text)
	}
	for _, size := range []int{0, 100 << 10, 130 << 10, 160 << 10, 200 << 10, 250 << 10} {
		others := map[string]string{"a": random(size)}
		record, whole := EncodeSpec(random(90<<10), func() json.RawMessage { return json.RawMessage(`"identity"`) }, others)
		if total := size + len(record); total > 254<<10 || whole != (size < 140<<10) {
			t.Errorf("others %d bytes the record has %d, and is whole: %t", size, len(record), whole)
		}
	}
}
