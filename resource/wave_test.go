package resource

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWaveIsRecorded checks that a record with a wave is read as it was written, that one without is that of before, and that a wave shapes nothing.
func TestWaveIsRecorded(t *testing.T) {
	at := metav1.NewTime(time.Unix(1e9, 0).UTC())
	in := BuildInputs{Rendering: RenderingLatest, Wave: Wave{Number: 2, At: at}}
	if got := in.Encode(); got != `{"rendering":2,"wave":{"number":2,"at":"2001-09-09T01:46:40Z"}}` {
		t.Errorf("the record is %s", got)
	}
	back, err := DecodeInputs(in.Encode())
	if err != nil || back.Wave.Number != 2 || !back.Wave.At.Equal(&at) {
		t.Errorf("it is read as %+v, %v", back, err)
	}
	without := BuildInputs{Rendering: RenderingLatest}
	if got := without.Encode(); got != `{"rendering":2}` || !in.SameTemplate(&without) {
		t.Errorf("without a wave: %s", got)
	}
	for _, forged := range []string{
		`{"rendering":2,"wave":{"number":0,"at":"2001-09-09T01:46:40Z"}}`, `{"rendering":2,"wave":{"number":-1,"at":"2001-09-09T01:46:40Z"}}`,
		`{"rendering":2,"wave":{"number":1,"at":null}}`, `{"rendering":2,"wave":{"number":1,"at":"2001-09-09T01:46:40.5Z"}}`, `{"rendering":2,"wave":{}}`,
	} {
		if got, err := DecodeInputs(forged); err == nil {
			t.Errorf("%s is read as %+v", forged, got)
		}
	}
}

// TestDefaultsDigest checks that the digest differs with the defaults and with the size alone.
func TestDefaultsDigest(t *testing.T) {
	some := recordDefaults(recordedDefaults{Without: []string{"a"}})
	small, large := BuiltInSizes().Resolve("small"), BuiltInSizes().Resolve("large")
	seen := map[string]bool{}
	for _, in := range []BuildInputs{{}, {Defaults: some}, {Size: small}, {Size: large}, {Defaults: some, Size: small}} {
		digest := in.DefaultsDigest()
		if seen[digest] || len(digest) != 20 {
			t.Errorf("the digest of %+v is %q", in, digest)
		}
		seen[digest] = true
		in.Refresh, in.Wave.Number, in.Rendering = "1", 3, 2
		if in.DefaultsDigest() != digest {
			t.Errorf("the digest of %+v is another one", in)
		}
	}
}
