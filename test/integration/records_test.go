package integration

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// removed stands for an annotation that is removed.
const removed = "(removed)"

// broken are values of the operator's annotations that it never wrote.
var broken = map[string][]string{
	appv1.AnnotationLastAppliedSpec: {
		removed, "", "what?", `{"image":`, "null", "[]", "{}", `"nginx"`, `{"image":1}`, `{"foo":"bar"}`,
		`{"image":"a","resources":{"limits":{"cpu":"1 core"}}}`,
		strings.Repeat("[", 100_000),
		"gzip:", "gzip:%%%", "gzip:" + base64.StdEncoding.EncodeToString([]byte("plain")), zipRecord([]byte("what?")),
		zipRecord([]byte(`{"image":"nginx"}`))[:40],
		zipRecord(slices.Concat([]byte(`{"image":"`), make([]byte, 64<<20), []byte(`"}`))),
		"sha256:", "sha256:what?", "sha256:" + strings.Repeat("G", 64),
	},
	appv1.AnnotationLastAppliedInputs: {
		removed, "", "what?", "{", "null", "[]", "{}", "7", `{"rendering":null}`, `{"rendering":"1"}`, `{"rendering":-1}`,
		`{"rendering":1.5}`, `{"rendering":99}`, `{"rendering":99999999999}`, `{"rendering":1,"later":true}`,
		`{"rendering":1}{"rendering":0}`,
	},
	appv1.AnnotationLastAppliedHash: {
		removed, "", "what?", strings.Repeat("0", 32), strings.Repeat("f", 100_000),
	},
	// As of a tool that strips what it does not know, or restores an object without it.
	"all":        {removed, "", "what?"},
	allAndLabels: {removed},
}

// allAndLabels stands for all labels and annotations of an object. Without them, only its owner and the owners of its fields tell that the
// operator has made it.
const allAndLabels = "all labels and annotations"

// zipRecord is a record as the operator compresses it.
func zipRecord(text []byte) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	// Writing to a buffer does not fail.
	_, _ = w.Write(text)
	_ = w.Close()
	return "gzip:" + base64.StdEncoding.EncodeToString(out.Bytes())
}

// brokenRecord is one App with a broken annotation on its Deployment.
type brokenRecord struct {
	app        *appv1.App
	key, value string
	// was is the Deployment before its annotation is broken.
	was *unstructured.Unstructured
}

// brokenRecords returns a new App for every broken value.
func brokenRecords(namespace string) []*brokenRecord {
	var records []*brokenRecord
	for _, key := range slices.Sorted(maps.Keys(broken)) {
		for _, value := range broken[key] {
			app := newFullApp(namespace, fmt.Sprintf("app-%d", len(records)))
			records = append(records, &brokenRecord{app: app, key: key, value: value})
		}
	}
	return records
}

// String tells one from another in a message.
func (b *brokenRecord) String() string { return fmt.Sprintf("%s: %.60q", b.key, b.value) }

// spoil breaks the annotation.
func (b *brokenRecord) spoil(t *testing.T) {
	t.Helper()
	keys := []string{b.key}
	if b.key == "all" {
		keys = slices.DeleteFunc(slices.Collect(maps.Keys(broken)), func(key string) bool { return key == "all" || key == allAndLabels })
	}
	d := deployment(b.app)
	plane.Read(t, d)
	plane.Change(t, d, func() {
		if b.key == allAndLabels {
			d.Labels, d.Annotations = nil, nil
			return
		}
		for _, key := range keys {
			d.Annotations[key] = b.value
			if b.value == removed {
				delete(d.Annotations, key)
			}
		}
	}, intruder)
}

// repaired waits until the Deployment is what it was, to the last field: the pods are not restarted either.
func (b *brokenRecord) repaired(t *testing.T) {
	t.Helper()
	d := &unstructured.Unstructured{}
	d.SetGroupVersionKind(b.was.GroupVersionKind())
	d.SetNamespace(b.app.Namespace)
	d.SetName(b.app.Name)
	plane.Until(t, d, func() error {
		if err := diffOf(withoutVersions(b.was), withoutVersions(d)); err != nil {
			return fmt.Errorf("%s: %w", b, err)
		}
		return nil
	})
}

// TestBrokenRecords breaks the annotations while the manager runs.
func TestBrokenRecords(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	records := brokenRecords(ns)
	forEachNumber(t, len(records), func(i int) {
		b := records[i]
		createInPlace(t, b.app)
		b.was = asUnstructured(t, plane, deployment(b.app))
		b.spoil(t)
		b.repaired(t)
	})
	m.Idle(t)
	forEachNumber(t, len(records), func(i int) { records[i].repaired(t) })
}

// TestBrokenRecordsOfAnotherRelease breaks the annotations while no manager runs, and then starts one of another release.
// What is not known must not restart anything, and here any doubt about the rendering would: the pod template is not the
// one that this release would choose today, and its owner's last refresh was acted on by the other.
func TestBrokenRecordsOfAnotherRelease(t *testing.T) {
	t.Parallel()
	newer := harness.WithRendering(resource.RenderingLatest)
	ways := map[string][2]harness.Option{"upgrade": {older, newer}, "downgrade": {newer, older}}
	turns := fixture.Turns(t, "upgrade", "downgrade")
	chosen := map[string][]bool{} // By the place of the record.
	for range brokenRecords("") {
		now := turns()
		for name := range ways {
			chosen[name] = append(chosen[name], slices.Contains(now, name))
		}
	}
	for name, releases := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			var records []*brokenRecord
			for i, b := range brokenRecords(ns) {
				if chosen[name][i] {
					records = append(records, b)
				}
			}
			m := plane.Start(t, ns, releases[0])
			forEachNumber(t, len(records), func(i int) {
				b := records[i]
				if i%2 == 0 {
					b.app.Annotations = map[string]string{appv1.AnnotationRefresh: "1"}
				}
				createInPlace(t, b.app)
			})
			m.Idle(t)
			m.Stop(t)
			forEachNumber(t, len(records), func(i int) {
				b := records[i]
				b.was = asUnstructured(t, plane, deployment(b.app))
				b.spoil(t)
			})

			m = plane.Start(t, ns, releases[1])
			m.Idle(t)
			forEachNumber(t, len(records), func(i int) { records[i].repaired(t) })
			m.Stop(t)
			m = plane.Start(t, ns, releases[1])
			checkRequests(t, m, "restart after the repair", map[string]int{})
		})
	}
}

// nearlyTrue are values of a switch that are not "true".
var nearlyTrue = []string{"yes", "True", "TRUE", "1", "t", "on", " true", "true ", "false", `"true"`, "{}"}

// TestSwitchesAreTrueOrOff sets the annotations that switch something on an App to what is not quite "true".
func TestSwitchesAreTrueOrOff(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	forEachNumber(t, len(nearlyTrue), func(i int) {
		value := nearlyTrue[i]
		app := newApp(ns, fmt.Sprintf("adopt-%d", i))
		app.Annotations = map[string]string{appv1.AnnotationAdopt: value}
		foreign := service(app)
		foreign.Spec.Ports = []corev1.ServicePort{{Port: 1}}
		plane.Create(t, foreign)
		was := readWhole(t, foreign)
		plane.Create(t, app)
		plane.Stands(t, app, "Stalled=True/ResourceExists")
		checkUntouched(t, foreign, was)
	})
	m.Idle(t)
}

// TestSwitchesBelongOnTheApp sets the App's annotations on its Deployment, where they mean nothing.
func TestSwitchesBelongOnTheApp(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	m.Idle(t)
	m.Requests.Reset()
	plane.Change(t, d, func() {
		d.Annotations[appv1.AnnotationAdopt] = "true"
		d.Annotations[appv1.AnnotationRefresh] = "1"
	}, intruder)
	checkRequests(t, m, "annotations of the Deployment", map[string]int{})
	setImage(t, app, "nginx:1.17")
	awaitImage(t, d, "nginx:1.17")
}

// TestTutorialAnnotationIsHistory changes the annotation of the tutorial's operator on an App whose Deployment is ours
// already. It has told what it had to tell when the Deployment was taken over.
func TestTutorialAnnotationIsHistory(t *testing.T) {
	t.Parallel()
	m, app, d := startRendering(t)
	m.Requests.Reset()
	for _, value := range []string{`{"image":"other"}`, "what?", `{}`} {
		setAnnotation(t, app, appv1.AnnotationTutorialSpec, value)
		checkRequests(t, m, "annotation "+value, map[string]int{})
	}
	// Not even where our own record is lost: that one speaks of another time.
	setAnnotation(t, app, appv1.AnnotationTutorialSpec, `{"image":"other"}`)
	template := d.Spec.Template
	setAnnotation(t, d, appv1.AnnotationLastAppliedHash, "")
	plane.Until(t, d, func() error {
		if d.Annotations[appv1.AnnotationLastAppliedHash] == "" {
			return fmt.Errorf("the hash is not back")
		}
		return nil
	})
	sameTemplate(t, d, template)
}

// oddCharacters has every character of the first planes that an annotation and a variable may have, and what JSON and YAML each
// take for markup.
func oddCharacters() string {
	var all strings.Builder
	all.WriteString(`{"rendering":0} <&> \ \\ \" ' # : - | > % @ !tag &anchor *alias` + " \r\n\t---\n...\n")
	for r := rune(1); r < 0x20_000; r++ {
		// The encoder would make a replacement of a surrogate. Of the rest, each hundredth stands for its neighbours.
		if r < 0x3000 || r%100 == 0 && (r < 0xd800 || r >= 0xe000) || r >= 0xfe00 && r < 0x1_0010 {
			all.WriteRune(r)
		}
	}
	return all.String()
}

// TestOddCharacters puts all characters into a spec. They must reach the Deployment as they are, and settle.
func TestOddCharacters(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	app.Spec.Envs = []corev1.EnvVar{{Name: "ODD", Value: oddCharacters()}}
	app.Spec.Args = []string{oddCharacters(), ""}
	d, _ := createInPlace(t, app)
	if containerOf(d).Env[0].Value != oddCharacters() || containerOf(d).Args[0] != oddCharacters() {
		t.Error("the Deployment has another text")
	}
	m.Idle(t)
	m.Requests.Reset()
	setAnnotation(t, d, "x", oddCharacters())
	checkRequests(t, m, "another owner's annotation", map[string]int{})
}

// TestOddRefresh refreshes by values that look like anything but a token.
func TestOddRefresh(t *testing.T) {
	t.Parallel()
	m, app, d := startRendering(t)
	for i, value := range []string{`{"rendering":0}`, " ", oddCharacters()} {
		setAnnotation(t, app, appv1.AnnotationRefresh, value)
		inputs := string(marshalJSON(t, map[string]any{"rendering": resource.RenderingLatest, "refresh": value}))
		plane.Until(t, d, func() error {
			var got, want map[string]any
			if err := json.Unmarshal([]byte(d.Annotations[appv1.AnnotationLastAppliedInputs]), &got); err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(inputs), &want); err != nil {
				return err
			}
			return diffOf(want, got)
		})
		m.Idle(t)
		m.Requests.Reset()
		setAnnotation(t, app, "x", value)
		checkRequests(t, m, fmt.Sprintf("another annotation next to refresh %d", i), map[string]int{})
	}
}
