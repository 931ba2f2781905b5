package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
)

// hostile has what a terminal or a browser acts on, or a reader does not see: an escape sequence, a bell, a C1 control, overrides and isolates
// of the direction, zero-width characters, line separators, a tag beyond the basic plane and bytes that are no UTF-8.
const hostile = "evil\x1b[2J\x07\u009b31m\u202eabc\u202c\u2066d\u2069\u200b\u200d\ufeff\u2028\u2029\U000e0041\xff\xfe\nnext"

// TestInvisibleCharacters has each kind of character without a glyph between two letters.
func TestInvisibleCharacters(t *testing.T) {
	for _, r := range []rune{
		'\u00ad', '\u200b', '\u2060', '\ufeff', '\u202e', '\u2066', '\u2028', '\u2029', '\u3164', '\u115f', '\u1160', '\uffa0', '\u2800', '\u034f', '\u17b4',
		'\u180b', '\ufe0f', '\U000e0100', '\U000e0041', '\ufffc', 0x07, 0x1b, 0x7f, 0x9b,
	} {
		if text := CleanLine("a" + string(r) + "b"); text != "ab" {
			t.Errorf("%U stays: %q", r, text)
		}
	}
	for _, text := range []string{"größer", "日本語", "a b", "e\u0301", "→ ✓ …"} {
		if got := CleanLine(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// spot is a text in a value.
type spot struct {
	path, was string
	set       func(string)
}

// spots returns all texts of a value; set replaces the value.
func spots(path string, v reflect.Value, set func(reflect.Value)) (found []spot) {
	switch v.Kind() {
	case reflect.String:
		return []spot{{path, v.String(), func(text string) { set(reflect.ValueOf(text).Convert(v.Type())) }}}
	case reflect.Pointer:
		if !v.IsNil() {
			found = spots(path, v.Elem(), v.Elem().Set)
		}
	case reflect.Interface:
		if !v.IsNil() {
			found = spots(path, v.Elem(), set)
		}
	case reflect.Slice:
		for i := range v.Len() {
			found = append(found, spots(fmt.Sprintf("%s[%d]", path, i), v.Index(i), v.Index(i).Set)...)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			found = append(found, spots(fmt.Sprintf("%s[%v]", path, key), v.MapIndex(key), func(item reflect.Value) { v.SetMapIndex(key, item) })...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); v.Type().Field(i).IsExported() && field.CanSet() {
				found = append(found, spots(path+"."+v.Type().Field(i).Name, field, field.Set)...)
			}
		}
	}
	return found
}

// views returns what all views make of a snapshot: data, and texts of several lines.
func views(t *testing.T, s *Snapshot) (data []any, texts []string) {
	t.Helper()
	list, why, tree, progress := RowsOf([]Resource{s.Resource}, s.Missing), WhyOf(s, 9), TreeOf(s, TreeOptions{AllRevisions: true}), ProgressOf(s)
	data = []any{list, why, tree, progress}
	texts = []string{
		list.Text(Style{}, now, ListOptions{Namespaces: true, Wide: true}), why.Text(Style{}, now), tree.Text(Style{}, now), progress.Text(Style{}, time.Minute, time.Hour, 0), progress.OneLine() + "\n",
	}
	if runs := RunsOf(s); runs != nil {
		data, texts = append(data, runs), append(texts, runs.Text(Style{}, now))
	}
	for _, w := range s.Resource.Workloads {
		h, err := HistoryOf(s, w.Part)
		if err != nil {
			continue
		}
		data, texts = append(data, h), append(texts, h.Text(Style{}, now))
		for i := range h.Revisions {
			for _, c := range h.Revisions[i].Changes {
				texts = append(texts, c.String())
			}
		}
	}
	for _, encode := range []func(any) ([]byte, error){EncodeJSON, EncodeYAML} {
		spec, err := encode(RedactSpec(toMap(s.Resource.Spec)))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(spec))
	}
	return data, texts
}

// harmful says what is wrong with a text of a view, empty if nothing is.
func harmful(text, allowed string) string {
	switch at := strings.IndexFunc(text, func(r rune) bool { return isUnprintable(r) && !strings.ContainsRune(allowed, r) }); {
	case at >= 0:
		return fmt.Sprintf("%q", text[at:min(len(text), at+20)])
	case !utf8.ValidString(text):
		return "no UTF-8"
	}
	return ""
}

// checkShown fails the test for a harmful text among what the views make of a snapshot, and reports whether the hostile text is in it.
func checkShown(t *testing.T, what string, s *Snapshot) (seen bool) {
	t.Helper()
	data, texts := views(t, s)
	for _, made := range data {
		exact := map[string]bool{}
		for _, found := range spots("", reflect.ValueOf(made), nil) {
			if strings.Contains(found.path, ".Spec") { // It is written back.
				exact[found.path] = true
				continue
			}
			allowed := ""
			if strings.HasSuffix(found.path, ".Old") || strings.HasSuffix(found.path, ".New") {
				allowed = "\n\t"
			} else if len(found.was) > maxText {
				t.Errorf("%s: %T%s has %d bytes", what, made, found.path, len(found.was))
			}
			if wrong := harmful(found.was, allowed); wrong != "" {
				t.Errorf("%s: %T%s: %s", what, made, found.path, wrong)
			}
			seen = seen || strings.Contains(found.was, "evil")
		}
	}
	for _, text := range texts {
		if wrong := harmful(text, "\n"); wrong != "" {
			t.Errorf("%s: a text: %s", what, wrong)
		}
	}
	return seen
}

// TestHostileTexts has each text of a snapshot hostile, one at a time, in cases of each sort, and checks all that the views make of it.
func TestHostileTexts(t *testing.T) {
	fields, shownFields := map[string]bool{}, map[string]bool{}
	for name, s := range hostileCases() {
		if !slices.Contains([]string{"more", "gitops", "ready", "cloudmanager", "task-failed", "task-running"}, name) {
			continue
		}
		all := spots("", reflect.ValueOf(s), nil)
		for _, at := range all {
			texts := []string{hostile, at.was + hostile}
			if name == "more" { // Longer than a text of a view.
				texts[0] += strings.Repeat(" long", maxText)
			}
			for _, text := range texts {
				at.set(text)
				if checkShown(t, name+at.path, s) {
					shownFields[at.path] = true
				}
				at.set(at.was)
			}
			fields[at.path] = true
		}
		if t.Failed() {
			return
		}
	}
	if len(fields) < 500 || len(shownFields) < 60 {
		t.Errorf("%d fields are hostile, %d of them are shown", len(fields), len(shownFields))
	}
	for _, want := range []string{
		".Events[0].Message", ".Events[0].Reason", ".Resource.Image", ".Resource.Status.Conditions[0].Message", ".Missing[0].Why",
		".Pods[0].Status.ContainerStatuses[0].State.Waiting.Message", ".Pods[0].Spec.NodeName", ".ReplicaSets[0].Spec.Template.Spec.Containers[0].Image",
		".Services[0].Status.LoadBalancer.Ingress[0].Hostname", ".Around[0].Object[spec][rules][0][host]", ".Resource.Status.Pending[0]",
		".Jobs[0].ObjectMeta.Name", ".Jobs[2].Status.Conditions[0].Reason", ".Resource.Schedule.Cron", ".Resource.Schedule.Last.Job", ".Resource.Schedule.Last.Result",
	} {
		if !shownFields[want] {
			t.Errorf("%s is not shown in any case", want)
		}
	}
}

// hostileCases are the cases of the golden files, and one with what those lack.
func hostileCases() map[string]*Snapshot {
	all := cases()
	r := newApp("nginx:1", condition(appv1.ConditionReady, metav1.ConditionFalse, appv1.ReasonImagePullBackOff, "words"))
	r.Status.Pending = []string{"1 object waits"}
	s := rollout(r, notPulled)
	s.Missing = []Missing{{"Secrets", "you may not list them"}}
	s.Services[0].Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}
	s.Pods[0] = newPod("cart-7d9c4-8x2kf", "cart-7d9c4", "node-1", notPulled)
	s.Pods[1].Status.Reason, s.Pods[1].Status.Message = "Evicted", "words"
	s.Pods[1].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "words"}}
	ingress := unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": map[string]any{"name": "cart"},
		"spec": map[string]any{"rules": []any{map[string]any{"host": "shop.example.com"}}},
	}}
	ingress.SetOwnerReferences([]metav1.OwnerReference{{UID: "app", Controller: ptr.To(true)}})
	s.Around = []unstructured.Unstructured{ingress}
	s.Deployments[0].Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "words"},
	}
	all["more"] = s
	return all
}

// TestHostilePlan has each text of a plan hostile, and leaves the plan itself as it is.
func TestHostilePlan(t *testing.T) {
	made := &plan.Plan{
		Kind: "App", Namespace: "shop", Name: "web", Problem: &plan.Problem{Reason: "Held", Message: "words"},
		Objects: []plan.Object{{
			Kind: "Deployment", Name: "web", Action: plan.Changed, Problem: &plan.Problem{Reason: "KindMissing", Message: "words"},
			Fields: []plan.Field{{Path: "image", Change: plan.FieldModified, From: ptr.To("a"), To: ptr.To("b")}}, Size: &plan.Step{From: "a", To: "b"},
		}},
	}
	for _, at := range spots("", reflect.ValueOf(made), nil) {
		at.set(at.was + hostile)
		all := PlanOf(made)
		if wrong := harmful(all.Text(Style{}), "\n"); wrong != "" {
			t.Errorf("%s: %s", at.path, wrong)
		}
		text, err := EncodeJSON(all)
		if err != nil || bytes.Contains(text, []byte(`\u`)) {
			t.Errorf("%s: %s, %v", at.path, text, err)
		}
		at.set(at.was)
		if strings.Contains(fmt.Sprintf("%+v", made), "evil") {
			t.Fatal("the plan was changed")
		}
	}
}

// TestHostileImport has each text of a Deployment and its Service hostile. The manifest is harmless and has exactly the values, and the
// comments are one line each.
func TestHostileImport(t *testing.T) {
	from := &Source{Deployment: importable(), Services: []corev1.Service{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "other"}},
	}}}
	imported := 0
	const words = "a\x1b[2J\u202eb\u2028c\U000e0041"
	for _, at := range spots("", reflect.ValueOf(from), nil) {
		at.set(words)
		made, err := ImportOf(from)
		at.set(at.was)
		if err != nil {
			if wrong := harmful(CleanText(err.Error()), "\n"); wrong != "" {
				t.Errorf("%s: %s", at.path, wrong)
			}
			continue
		}
		fields, err := made.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		text, err := EncodeYAML(fields)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := harmful(made.HeadComments()+string(text), "\n"); wrong != "" {
			t.Errorf("%s: %s", at.path, wrong)
		}
		var read map[string]any
		if err := yaml.Unmarshal(append([]byte(made.HeadComments()), text...), &read); err != nil {
			t.Errorf("%s: %v", at.path, err)
		}
		back, _ := json.Marshal(read)
		want, _ := json.Marshal(fields)
		if !bytes.Equal(back, want) {
			t.Errorf("%s: read back as %s, want %s", at.path, back, want)
		}
		if strings.Contains(string(want), "\u202e") {
			imported++
		}
	}
	if imported < 5 {
		t.Errorf("only %d hostile values were imported", imported)
	}
}

// importable returns a Deployment with a text in many fields.
func importable() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: labels, Annotations: map[string]string{"note": "a"}}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	d.Spec.Template.Labels = map[string]string{"app": "web", "version": "v1"}
	d.Spec.Template.Annotations = map[string]string{"note": "a"}
	d.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "web", Image: "nginx", Args: []string{"a"}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}}, WorkingDir: "/a",
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
		}},
		ServiceAccountName: "web", SchedulerName: "mine",
	}
	return d
}

// TestCleanWriter writes errors without what a terminal acts on, and with their lines.
func TestCleanWriter(t *testing.T) {
	var out bytes.Buffer
	text := []byte("one\x1b[2J\u202e\ntwo\n")
	if n, err := CleanWriter(&out).Write(text); n != len(text) || err != nil || out.String() != "one[2J\ntwo\n" {
		t.Errorf("%d, %v: %q", n, err, out.String())
	}
}
