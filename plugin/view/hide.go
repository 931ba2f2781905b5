package view

import (
	"cmp"
	"index/suffixarray"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/secrecy"
)

const (
	// leastHidden is how many bytes a value of a variable has at least that is hidden wherever it occurs. A shorter one, such as "true", is
	// hidden in the spec and in changes alone.
	leastHidden = 8
	// mostHidden is how many values are hidden at most: the memory to find them grows with their number. With more, no text of others is shown.
	mostHidden = 10_000
	// mostHiddenBytes is how many bytes the values have at most, in all their spellings. With more, no text of others is shown, either.
	mostHiddenBytes = 4 << 20
	// mostWhole is how many bytes a text of others has at most that is taken for a whole one. The API server cuts the message of an event after 1,024
	// bytes, and a kubelet other ones, so the end of a longer text may be the beginning of a value.
	mostWhole = 1000
	// mostCompared is how many bytes of a value are enough to find its beginning in a text that may have been cut.
	mostCompared = 1 << 10
	// mostNamed is how many bytes the words have that a hider keeps. A value that is among further ones is hidden, too.
	mostNamed = 16 << 10
)

// urlQuery matches the query of a URL, which may have a token in it.
var urlQuery = regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^\s"'?]+)\?[^\s"']+`)

// variableChange matches the path of a variable or of a part of it, variableList the path of all variables of a container.
var variableChange, variableList = regexp.MustCompile(`(?:^|\.)envs?\[`), regexp.MustCompile(`(?:^|\.)envs?$`)

// withoutVariables hides the values of variables in changes.
func withoutVariables(changes []Change) []Change {
	for i := range changes {
		c := &changes[i]
		if variableChange.MatchString(c.Path) {
			c.Old, c.New = hideValue(c.Old), hideValue(c.New)
			continue
		}
		isList := variableList.MatchString(c.Path)
		c.Old, c.New = walkVariables(c.Old, isList), walkVariables(c.New, isList)
	}
	return changes
}

// hideVariables returns a spec in which the values of all variables are hidden.
func hideVariables(spec map[string]any) map[string]any {
	hiddenSpec, _ := walkVariables(spec, false).(map[string]any)
	return hiddenSpec
}

func walkVariables(value any, variables bool) any {
	switch v := value.(type) {
	case map[string]any:
		shown := map[string]any{}
		for key, below := range v {
			if variables && key == "value" {
				shown[key] = hidden
				continue
			}
			shown[key] = walkVariables(below, variables || key == "env" || key == "envs")
		}
		return shown
	case []any:
		shown := make([]any, 0, len(v))
		for _, item := range v {
			shown = append(shown, walkVariables(item, variables))
		}
		return shown
	}
	return value
}

// values are texts that are hidden wherever they occur.
type values struct {
	found map[string]bool
	// bytes is the length of all that is found.
	bytes int
	// incomplete is true if there are values that were not read, or that are not kept because of mostHiddenBytes. No text of others is shown then.
	incomplete bool
}

// addValue adds a value, in the forms in which a text of others may have it: its lines, its secret parts, and each of these in the spellings of encoders.
func (v *values) addValue(value string) {
	if v.found[value] || v.incomplete { // Pods have the same ones.
		return
	}
	v.addForms(strings.TrimSpace(value))
	v.addForms(value)
	for _, part := range secrecy.Parts(value) {
		v.addForms(part)
	}
}

// addForms adds a value in the spellings of encoders. Beyond mostHiddenBytes, none is kept.
func (v *values) addForms(value string) {
	if v.incomplete || len(value) < leastHidden {
		return
	}
	if v.found == nil {
		v.found = map[string]bool{}
	}
	for _, form := range append(secrecy.Spellings(value), CleanLine(value)) {
		if len(form) < leastHidden/2 || v.found[form] { // Without invisible characters, it may be shorter.
			continue
		}
		if v.bytes += len(form); v.bytes > mostHiddenBytes {
			*v = values{incomplete: true}
			return
		}
		v.found[form] = true
	}
}

// addSpec adds the values that are hidden in a spec.
func (v *values) addSpec(spec map[string]any) {
	noteDifferences(spec, hideVariables(RedactSpec(spec)), v)
}

// addWorkload adds the annotations of an object, and the values that are hidden in its pod template.
func (v *values) addWorkload(obj metav1.Object, template *corev1.PodTemplateSpec) {
	v.addAnnotations(obj)
	v.addSpec(toMap(template))
}

// addAnnotations adds the annotations of an object without the annotations of Kubernetes and of the operator.
func (v *values) addAnnotations(obj metav1.Object) {
	for key, value := range obj.GetAnnotations() {
		prefix, _, _ := strings.Cut(key, "/")
		if prefix != appv1.GroupVersion.Group && !slices.Contains(ownPrefixes, prefix) {
			v.addValue(value)
		}
	}
}

// ownPrefixes are the prefixes of the annotations that Kubernetes and kubectl write.
var ownPrefixes = []string{"deployment.kubernetes.io", "kubectl.kubernetes.io", "batch.kubernetes.io", "cronjob.kubernetes.io", "autoscaling.alpha.kubernetes.io", "pv.kubernetes.io"}

// addPod adds the values in a pod that its template may lack, because an admission webhook has added them. There may be thousands of pods, so this
// is no addSpec.
func (v *values) addPod(pod *corev1.Pod) {
	v.addAnnotations(pod)
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			v.addContainer(c.Env, c.Command, c.Args)
			for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
				if probe != nil {
					v.addHandler(probe.Exec, probe.HTTPGet)
				}
			}
			if c.Lifecycle != nil {
				for _, hook := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
					if hook != nil {
						v.addHandler(hook.Exec, hook.HTTPGet)
					}
				}
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		v.addContainer(c.Env, c.Command, c.Args)
	}
}

func (v *values) addContainer(env []corev1.EnvVar, texts ...[]string) {
	for i := range env {
		v.addValue(env[i].Value)
	}
	for _, text := range slices.Concat(texts...) {
		v.addValue(text)
	}
}

func (v *values) addHandler(exec *corev1.ExecAction, get *corev1.HTTPGetAction) {
	if exec != nil {
		v.addContainer(nil, exec.Command)
	}
	if get != nil {
		for _, header := range get.HTTPHeaders {
			v.addValue(header.Value)
		}
	}
}

// kindsWithValues are the kinds of objects that have values of variables, in the plural.
var kindsWithValues = []string{kindsDeployments, kindsReplicaSets, kindsPods, kindsStatefulSets, kindsJobs, kindsCronJobs}

// lacksValues reports whether a list of objects with values could not be read: values that these objects alone have cannot be hidden.
func (s *Snapshot) lacksValues() bool { return slices.ContainsFunc(kindsWithValues, s.lacksKind) }

// hiddenValues returns the values that are hidden in the spec, in a recorded spec, and in the live objects, which have values of other sources, too:
// AppDefaults, patches, and webhooks.
func (s *Snapshot) hiddenValues() *values {
	found := &values{}
	found.addSpec(toMap(s.Resource.Spec))
	for _, name := range slices.Concat([]string{""}, s.Resource.partNames()) {
		if history, isWhole, err := s.readHistory(Part(name)); err == nil {
			found.incomplete = found.incomplete || !isWhole
			for i := range history.Revisions {
				found.addSpec(history.Revisions[i].Spec)
			}
		}
	}
	for i := range s.Deployments {
		found.addWorkload(&s.Deployments[i], &s.Deployments[i].Spec.Template)
	}
	for i := range s.StatefulSets {
		found.addWorkload(&s.StatefulSets[i], &s.StatefulSets[i].Spec.Template)
	}
	for i := range s.ReplicaSets {
		found.addWorkload(&s.ReplicaSets[i], &s.ReplicaSets[i].Spec.Template)
	}
	for i := range s.Jobs {
		found.addWorkload(&s.Jobs[i], &s.Jobs[i].Spec.Template)
	}
	for i := range s.CronJobs {
		found.addAnnotations(&s.CronJobs[i])
		found.addWorkload(&s.CronJobs[i].Spec.JobTemplate, &s.CronJobs[i].Spec.JobTemplate.Spec.Template)
	}
	for i := range s.Pods {
		found.addPod(&s.Pods[i])
	}
	for i := range s.Services {
		found.addAnnotations(&s.Services[i])
	}
	for i := range s.Autoscalers {
		found.addAnnotations(&s.Autoscalers[i])
	}
	for i := range s.Around {
		found.addAnnotations(&s.Around[i])
	}
	for i := range s.Claims {
		found.addAnnotations(&s.Claims[i])
	}
	return found
}

// namedWords returns the words that the views have anyway: the name of the resource, its image, and the names of containers, mostNamed bytes at most.
func (s *Snapshot) namedWords() string {
	r := &s.Resource
	words, size := map[string]bool{}, 0
	add := func(word string) {
		if length := len(word) + 1; size+length <= mostNamed && !words[word] {
			words[word] = true
			size += length
		}
	}
	for _, word := range []string{r.Kind, r.ObjectMeta.Namespace, r.ObjectMeta.Name, r.Image} {
		add(word)
	}
	for i := range s.Pods {
		for _, containers := range [][]corev1.Container{s.Pods[i].Spec.InitContainers, s.Pods[i].Spec.Containers} {
			for c := range containers {
				add(containers[c].Name)
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(words)), "\n")
}

// newHider returns a function that hides, in a text of others, the queries and passwords of URLs and each of hiddenValues.
func (s *Snapshot) newHider() func(text string) string {
	return s.hiddenValues().newHider(s.namedWords())
}

// newHider returns a function that hides the values in a text, except values in the named words, and the queries and passwords of URLs.
func (v *values) newHider(named string) func(text string) string {
	if v.incomplete || len(v.found) > mostHidden {
		return func(string) string { return hidden }
	}
	var longestFirst []string
	kept := suffixarray.New([]byte(named))
	for value := range v.found {
		if len(kept.Lookup([]byte(value), 1)) == 0 {
			longestFirst = append(longestFirst, value)
		}
	}
	slices.SortFunc(longestFirst, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(longestFirst))
	for _, value := range longestFirst {
		pairs = append(pairs, value, hidden)
	}
	replacer, sorted := strings.NewReplacer(pairs...), slices.Sorted(slices.Values(longestFirst))
	return func(text string) string {
		isCut := len(text) >= mostWhole
		text = replacer.Replace(strings.Map(visibleRune, text)) // A character that no view shows may be in the middle of a value.
		if isCut {
			text = withoutBeginnings(text, sorted)
		}
		text = urlQuery.ReplaceAllString(text, "${1}?"+hidden)
		return userPassword.ReplaceAllString(text, "${1}"+hidden+"@")
	}
}

// withoutBeginnings returns a text without the beginning of one of the sorted values at its end, where the text may have been cut. From the first mostCompared
// bytes of a value on, nothing of the text is shown: at each place no more is compared, as all of a repetitive text would be, again and again.
func withoutBeginnings(text string, sorted []string) string {
	end := strings.TrimRight(text, ".… ")
	for at := range max(0, len(end)-leastHidden+1) {
		start := end[at:min(len(end), at+mostCompared)]
		if i, _ := slices.BinarySearch(sorted, start); i < len(sorted) && strings.HasPrefix(sorted[i], start) {
			return text[:at] + hidden
		}
	}
	return text
}

// noteDifferences notes the texts of a value that another one, which is the same with parts hidden, does not have.
func noteDifferences(value, without any, into *values) {
	switch v := value.(type) {
	case map[string]any:
		other, _ := without.(map[string]any)
		for key, below := range v {
			noteDifferences(below, other[key], into)
		}
	case []any:
		other, _ := without.([]any)
		for i, below := range v {
			if i < len(other) {
				noteDifferences(below, other[i], into)
			} else {
				noteDifferences(below, nil, into)
			}
		}
	case string:
		if without != v {
			into.addValue(v)
		}
	}
}
