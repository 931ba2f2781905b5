package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestFollowContent is the table of what content does to pods.
func TestFollowContent(t *testing.T) {
	const cm, other, secret = "ConfigMap/a", "ConfigMap/b", "Secret/s"
	recorded := func(pairs ...string) ConfigInputs {
		c := ConfigInputs{Objects: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			c.Objects[pairs[i]] = pairs[i+1]
		}
		return c
	}
	withSum := func(c ConfigInputs, sum string) ConfigInputs { c.Sum = sum; return c }
	withKey := func(c ConfigInputs, key string) ConfigInputs { c.Key = key; return c }
	is := func(sum string) Content { return Content{Sum: sum} }
	optional := func(sum string) Content { return Content{Sum: sum, Optional: true} }
	unread := Content{Unread: true}
	missing := Content{}
	type seen = map[string]Content
	both := func(a, b string) string { return sumOfObjects(map[string]string{cm: a, other: b}) }
	one := func(a string) string { return sumOfObjects(map[string]string{cm: a}) }

	for name, test := range map[string]struct {
		recorded ConfigInputs
		seen     seen
		key      string
		moment   Moment
		want     ConfigInputs
		changed  []string
	}{
		"turned on":                                {ConfigInputs{}, seen{cm: is("1")}, "", MomentSettled, recorded(cm, "1"), nil},
		"turned on again keeps the annotation":     {ConfigInputs{Sum: "x"}, seen{cm: is("1")}, "", MomentSettled, withSum(recorded(cm, "1"), "x"), nil},
		"turned on with a new spec":                {ConfigInputs{Sum: "x"}, seen{cm: is("1")}, "", MomentReplaced, withSum(recorded(cm, "1"), "x"), nil},
		"no references":                            {ConfigInputs{}, seen{}, "", MomentSettled, ConfigInputs{}, nil},
		"nothing new":                              {recorded(cm, "1"), seen{cm: is("1")}, "", MomentSettled, recorded(cm, "1"), nil},
		"new content":                              {recorded(cm, "1"), seen{cm: is("2")}, "", MomentSettled, withSum(recorded(cm, "2"), one("2")), []string{cm}},
		"new content that waits":                   {recorded(cm, "1"), seen{cm: is("2")}, "", MomentWaiting, recorded(cm, "1"), []string{cm}},
		"new content that was not read":            {recorded(cm, "1"), seen{cm: unread}, "", MomentSettled, recorded(cm, "1"), nil},
		"the first content again":                  {withSum(recorded(cm, "2"), one("2")), seen{cm: is("1")}, "", MomentSettled, withSum(recorded(cm, "1"), one("1")), []string{cm}},
		"deleted":                                  {recorded(cm, "1"), seen{cm: missing}, "", MomentSettled, recorded(cm, "1"), nil},
		"deleted, another changed":                 {recorded(cm, "1", other, "1"), seen{cm: missing, other: is("2")}, "", MomentSettled, withSum(recorded(cm, "1", other, "2"), both("1", "2")), []string{other}},
		"missing from the start":                   {ConfigInputs{}, seen{cm: missing}, "", MomentReplaced, recorded(cm, ""), nil},
		"a required one appears":                   {recorded(cm, ""), seen{cm: is("1")}, "", MomentSettled, recorded(cm, "1"), nil},
		"an optional one appears":                  {recorded(cm, ""), seen{cm: optional("1")}, "", MomentSettled, withSum(recorded(cm, "1"), one("1")), []string{cm}},
		"an optional one appears and waits":        {recorded(cm, ""), seen{cm: optional("1")}, "", MomentWaiting, recorded(cm, ""), []string{cm}},
		"a new reference":                          {recorded(cm, "1"), seen{cm: is("1"), other: is("1")}, "", MomentReplaced, recorded(cm, "1", other, "1"), nil},
		"a new reference, annotated":               {withSum(recorded(cm, "1"), one("1")), seen{cm: is("1"), other: is("1")}, "", MomentReplaced, withSum(recorded(cm, "1", other, "1"), both("1", "1")), nil},
		"a reference less":                         {recorded(cm, "1", other, "1"), seen{cm: is("1")}, "", MomentReplaced, recorded(cm, "1"), nil},
		"a reference less, annotated":              {withSum(recorded(cm, "1", other, "1"), both("1", "1")), seen{cm: is("1")}, "", MomentReplaced, withSum(recorded(cm, "1"), one("1")), nil},
		"a new spec, same content":                 {withSum(recorded(cm, "1"), "x"), seen{cm: is("1")}, "", MomentReplaced, withSum(recorded(cm, "1"), "x"), nil},
		"a new spec and new content":               {recorded(cm, "1"), seen{cm: is("2")}, "", MomentReplaced, withSum(recorded(cm, "2"), one("2")), []string{cm}},
		"a Secret by another key":                  {withKey(recorded(secret, "1", cm, "1"), "k"), seen{secret: is("2"), cm: is("1")}, "l", MomentSettled, withKey(recorded(secret, "2", cm, "1"), "l"), nil},
		"a Secret by another key that is not read": {withKey(recorded(secret, "1", cm, "1"), "k"), seen{secret: unread, cm: is("1")}, "l", MomentSettled, recorded(cm, "1"), nil},
		"a Secret that changed":                    {withKey(recorded(secret, "1"), "k"), seen{secret: is("2")}, "k", MomentSettled, withSum(withKey(recorded(secret, "2"), "k"), sumOfObjects(map[string]string{secret: "2"})), []string{secret}},
		"Secrets are no longer followed":           {withKey(recorded(secret, "1", cm, "1"), "k"), seen{cm: is("1")}, "", MomentSettled, recorded(cm, "1"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, changed := test.recorded.Follow(test.seen, test.key, test.moment)
			if !got.Equal(test.want) {
				t.Errorf("(-want +got):\n%s", cmp.Diff(test.want, got))
			}
			if diff := cmp.Diff(test.changed, changed); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
			again, changed := got.Follow(test.seen, test.key, MomentSettled)
			if test.moment != MomentWaiting && (!again.Equal(got) || len(changed) > 0) {
				t.Errorf("a second look: %v, %v", again, changed)
			}
		})
	}
}

// TestNewContentHasANewSum walks through all histories of a few steps: whenever content replaces pods, the annotation is another one
// than before.
func TestNewContentHasANewSum(t *testing.T) {
	type step struct {
		seen   map[string]Content
		moment Moment
	}
	var steps []step
	for _, a := range []string{"", "1", "2"} {
		for _, b := range []string{"-", "", "1", "2"} {
			for _, moment := range []Moment{MomentSettled, MomentReplaced} {
				s := step{map[string]Content{"ConfigMap/a": {Sum: a, Optional: true}}, moment}
				if b != "-" {
					s.seen["ConfigMap/b"] = Content{Sum: b}
				}
				steps = append(steps, s)
			}
		}
	}
	replaced := 0
	var walk func(c ConfigInputs, depth int)
	walk = func(c ConfigInputs, depth int) {
		for _, s := range steps {
			// References change with the spec alone.
			if _, has := c.Objects["ConfigMap/b"]; c.Follows() && has != (len(s.seen) == 2) && s.moment == MomentSettled {
				continue
			}
			next, changed := c.Follow(s.seen, "", s.moment)
			if len(changed) > 0 {
				if replaced++; next.Sum == c.Sum {
					t.Fatalf("%+v with %+v: the annotation stays", c, s)
				}
			} else if s.moment == MomentSettled && next.Sum != c.Sum {
				t.Fatalf("%+v with %+v: the annotation changes", c, s)
			}
			if depth > 1 {
				walk(next, depth-1)
			}
		}
	}
	walk(ConfigInputs{}, 4)
	if replaced == 0 {
		t.Error("no content has replaced pods")
	}
}

// TestContentSums says which contents have equal sums.
func TestContentSums(t *testing.T) {
	key, otherKey := []byte("0123456789abcdef0123456789abcdef"), []byte("another")
	use := func(kind, name string, edit func(*ConfigReference)) *ConfigReference {
		r := &ConfigReference{Kind: kind, Name: name, keys: map[string]bool{}}
		edit(r)
		return r
	}
	one := func(r *ConfigReference) { r.keys["a"] = true }
	sum := func(key []byte, namespace string, r *ConfigReference, data map[string]string) string {
		return r.Sum(key, namespace, DigestContent(key, namespace, r.ID(), data, nil))
	}
	base := sum(key, "ns", use("Secret", "s", one), map[string]string{"a": "1", "b": "1"})
	if base == "" || len(base) != 2*contentSum {
		t.Fatalf("the sum is %q", base)
	}
	if same := sum(key, "ns", use("Secret", "s", one), map[string]string{"a": "1", "b": "2"}); same != base {
		t.Error("a key that is not in use counts")
	}
	all := func(r *ConfigReference) { r.all = true }
	for what, other := range map[string]string{
		"value":     sum(key, "ns", use("Secret", "s", one), map[string]string{"a": "2"}),
		"namespace": sum(key, "other", use("Secret", "s", one), map[string]string{"a": "1"}),
		"name":      sum(key, "ns", use("Secret", "t", one), map[string]string{"a": "1"}),
		"kind":      sum(key, "ns", use("ConfigMap", "s", one), map[string]string{"a": "1"}),
		"key":       sum(otherKey, "ns", use("Secret", "s", one), map[string]string{"a": "1"}),
		"keys":      sum(key, "ns", use("Secret", "s", all), map[string]string{"a": "1", "b": "1"}),
		"no key":    sum(nil, "ns", use("Secret", "s", one), map[string]string{"a": "1"}),
	} {
		if other == base || other == "" {
			t.Errorf("another %s: the sum is %q", what, other)
		}
	}
	if missing := sum(key, "ns", use("Secret", "s", one), map[string]string{"b": "1"}); missing != "" {
		t.Error("a key that pods do not start without is missing, and there is a sum")
	}
	if sum(nil, "ns", use("ConfigMap", "s", all), map[string]string{"a": "bc"}) == sum(nil, "ns", use("ConfigMap", "s", all), map[string]string{"ab": "c"}) {
		t.Error("two contents are written alike")
	}
	text := use("ConfigMap", "m", func(r *ConfigReference) { r.text = true })
	binaries := map[string][]byte{"b": {0xff}}
	if text.Sum(nil, "ns", DigestContent(nil, "ns", text.ID(), map[string]string{"a": "1"}, binaries)) != sum(nil, "ns", text, map[string]string{"a": "1"}) {
		t.Error("what cannot be a variable counts as one")
	}
}

// TestSecretSumsCannotBeTried looks for plain hashes of a value in all that is made of it.
func TestSecretSumsCannotBeTried(t *testing.T) {
	r := &ConfigReference{Kind: KindSecret, Name: "s", all: true}
	data := map[string]string{"a": "hunter2"}
	digests := DigestContent([]byte("0123456789abcdef0123456789abcdef"), "ns", r.ID(), data, nil)
	digest := digests.digests["a"]
	made := r.Sum([]byte("0123456789abcdef0123456789abcdef"), "ns", digests) + hex.EncodeToString(digest[:])
	unkeyed := DigestContent(nil, "ns", r.ID(), data, nil)
	unkeyedDigest, plain := unkeyed.digests["a"], sha256.Sum256([]byte("hunter2"))
	for what, hash := range map[string]string{
		"hash": hex.EncodeToString(plain[:8]), "digest": hex.EncodeToString(unkeyedDigest[:8]), "sum": r.Sum(nil, "ns", unkeyed)[:16],
	} {
		if strings.Contains(made, hash) {
			t.Errorf("the plain %s of the value is in what is made of it", what)
		}
	}
}

// TestConfigInputsAreARecord builds an App from the record of one whose content had changed.
func TestConfigInputsAreARecord(t *testing.T) {
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	app.Spec.Image = "nginx"
	in := BuildInputs{Rendering: RenderingLatest}
	in.Config, _ = ConfigInputs{Objects: map[string]string{"ConfigMap/a": sumOfObjects(nil)}}.Follow(
		map[string]Content{"ConfigMap/a": {Sum: sumOfObjects(map[string]string{"x": ""})}}, "", MomentSettled)
	w, errs := App(app, BuildOptions{Inputs: in})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if got := w.Template.Annotations[appv1.AnnotationConfig]; got != in.Config.Sum || got == "" {
		t.Errorf("the annotation of the pods is %q", got)
	}
	read, err := DecodeInputs(w.Record[appv1.AnnotationLastAppliedInputs])
	if err != nil || !read.Config.Equal(in.Config) {
		t.Fatalf("the record reads as %+v, %v", read.Config, err)
	}
	again, err := BuildRecorded(AppSpec(app), w.Record[appv1.AnnotationLastAppliedSpec], BuildOptions{Inputs: read})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.Template, again.Template); diff != "" {
		t.Errorf("built from the record (-before +after):\n%s", diff)
	}
	later, _ := ChooseInputs(Provenance{Exists: true, Ours: true, Inputs: read.Encode(), SpecChanged: true}, "1", BuildInputs{Rendering: RenderingLatest}, ResolvedSize{}, "")
	if !later.Config.Equal(in.Config) {
		t.Errorf("with a new spec the record is %+v", later.Config)
	}
}

// TestConfigSumsAreHex reads records that others have edited.
func TestConfigSumsAreHex(t *testing.T) {
	good := BuildInputs{Rendering: RenderingLatest, Config: ConfigInputs{Sum: sumOfObjects(nil)}}
	if _, err := DecodeInputs(good.Encode()); err != nil {
		t.Error(err)
	}
	for _, sum := range []string{"x", "ab", strings.ToUpper(sumOfObjects(map[string]string{"a": "b"})), strings.Repeat("a", 2000)} {
		for _, c := range []ConfigInputs{{Sum: sum}, {Objects: map[string]string{"ConfigMap/a": sum}}} {
			bad := good
			bad.Config = c
			if _, err := DecodeInputs(bad.Encode()); err == nil {
				t.Errorf("%.50q is a sum", sum)
			}
		}
		template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{appv1.AnnotationConfig: sum}}}
		if c := ConfigOf(template); !c.Equal(ConfigInputs{}) {
			t.Errorf("a template with %.50q tells %+v", sum, c)
		}
	}
}

// TestRecordSize compares the estimate with the record.
func TestRecordSize(t *testing.T) {
	var refs []ConfigReference
	c := ConfigInputs{Objects: map[string]string{}}
	for _, name := range slices.Repeat([]string{"x"}, 90) {
		r := ConfigReference{Kind: KindConfigMap, Name: strings.Repeat(name, len(refs)+1)}
		refs = append(refs, r)
		c.Objects[r.ID()] = sumOfObjects(nil)
	}
	written := len(BuildInputs{Config: c}.Encode()) - len(BuildInputs{}.Encode())
	if size := RecordSize(refs); size > written || written-size > 100 {
		t.Errorf("estimated %d bytes, written %d", size, written)
	}
}

// TestContentMark compares content with a mark. What one of them lacks, and Secrets whose sums have another key, are not comparable.
func TestContentMark(t *testing.T) {
	const one, two = "11111111aaaaaaaa", "22222222aaaaaaaa"
	inputs := ConfigInputs{Objects: map[string]string{"ConfigMap/a": one, "Secret/a": one, "ConfigMap/gone": ""}, Key: "k", Sum: "of before"}
	mark := inputs.Mark()
	for name, c := range map[string]struct {
		id, sum, key string
		want         bool
	}{
		"the same":                {"ConfigMap/a", one, "k", false},
		"another ConfigMap":       {"ConfigMap/a", two, "k", true},
		"a ConfigMap, by any key": {"ConfigMap/a", two, "l", true},
		"another Secret":          {"Secret/a", two, "k", true},
		"a Secret, by a key":      {"Secret/a", two, "l", false},
		"an object that is gone":  {"ConfigMap/a", "", "k", false},
		"an object that was gone": {"ConfigMap/gone", one, "k", false},
		"an object of no mark":    {"ConfigMap/b", one, "k", false},
	} {
		if got := mark.Differs(c.id, c.sum, c.key); got != c.want {
			t.Errorf("%s: differs is %t", name, got)
		}
	}
	if none := (&ConfigInputs{}).Mark(); none.Objects != nil || none.Differs("ConfigMap/a", one, "") {
		t.Errorf("the mark of nothing is %+v", none)
	}
}
