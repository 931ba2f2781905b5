package view

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

// marker is a value that no view of a public snapshot has.
const marker = "S3CR3T-value-1"

// allViews returns all that a page has of a snapshot.
func allViews(s *Snapshot) string {
	lines, _ := PodLines(s)
	views := []any{
		WhyOf(s, 0), TreeOf(s, TreeOptions{}), FactsOf(s), WayOf(s), PodRows(s), BeforeOf(s), RunsOf(s), HappenedOf(s, 100), RolloutOf(s), lines,
		RowOf(&s.Resource), s.HideValues(toMap(s.Resource.Spec)),
	}
	return encode(views)
}

// withMarker is a container with the marker in a variable.
func withMarker(name string) corev1.Container {
	return corev1.Container{Name: name, Env: []corev1.EnvVar{{Name: "PLAIN", Value: marker}}}
}

// sources are the places from which a value comes: each adds the marker to a snapshot, and returns whether it has the place.
var sources = map[string]func(*Snapshot) bool{
	"spec.envs": func(s *Snapshot) bool {
		app, ok := s.Resource.Spec.(*appv1.AppSpec)
		if ok {
			app.Envs = append(app.Envs, corev1.EnvVar{Name: "PLAIN", Value: marker})
		}
		return ok
	},
	"spec.podTemplatePatch": func(s *Snapshot) bool {
		app, ok := s.Resource.Spec.(*appv1.AppSpec)
		if ok {
			app.PodTemplatePatch = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"hostname":%q}}`, marker)}
		}
		return ok
	},
	"a Deployment": func(s *Snapshot) bool {
		return each(s.Deployments, func(d *appsv1.Deployment) { inTemplate(&d.Spec.Template) })
	},
	"a sidecar of a Deployment": func(s *Snapshot) bool {
		return each(s.Deployments, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.InitContainers = append(d.Spec.Template.Spec.InitContainers, withMarker("log"))
		})
	},
	"an argument of a Deployment": func(s *Snapshot) bool {
		return each(s.Deployments, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "log", Args: []string{marker}})
		})
	},
	"a header of a Deployment": func(s *Snapshot) bool {
		return each(s.Deployments, func(d *appsv1.Deployment) {
			probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{HTTPHeaders: []corev1.HTTPHeader{{Name: "X", Value: marker}}}}}
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "log", LivenessProbe: probe})
		})
	},
	"an annotation of a Deployment": func(s *Snapshot) bool {
		return each(s.Deployments, func(d *appsv1.Deployment) { metav1.SetMetaDataAnnotation(&d.ObjectMeta, "example.com/note", marker) })
	},
	"a canary": func(s *Snapshot) bool {
		canary := appsv1.Deployment{ObjectMeta: objectMeta("cart-canary", "canary", "app", time.Hour)}
		canary.Labels = map[string]string{appv1.LabelCanary: "cart"}
		inTemplate(&canary.Spec.Template)
		s.Deployments = append(s.Deployments, canary)
		return true
	},
	"an earlier ReplicaSet": func(s *Snapshot) bool {
		return len(s.ReplicaSets) > 0 && each(s.ReplicaSets[:1], func(rs *appsv1.ReplicaSet) { inTemplate(&rs.Spec.Template) })
	},
	"a StatefulSet": func(s *Snapshot) bool {
		return each(s.StatefulSets, func(set *appsv1.StatefulSet) { inTemplate(&set.Spec.Template) })
	},
	"a Job": func(s *Snapshot) bool {
		return each(s.Jobs, func(job *batchv1.Job) { inTemplate(&job.Spec.Template) })
	},
	"a CronJob": func(s *Snapshot) bool {
		return each(s.CronJobs, func(cron *batchv1.CronJob) { inTemplate(&cron.Spec.JobTemplate.Spec.Template) })
	},
	"a pod": func(s *Snapshot) bool {
		return each(s.Pods, func(pod *corev1.Pod) { pod.Spec.Containers = append(pod.Spec.Containers, withMarker("injected")) })
	},
	"a debugger of a pod": func(s *Snapshot) bool {
		return each(s.Pods, func(pod *corev1.Pod) {
			debugger := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon(withMarker("debug"))}
			pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, debugger)
		})
	},
	"a hook of a pod": func(s *Snapshot) bool {
		return each(s.Pods, func(pod *corev1.Pod) {
			hook := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{marker}}}}
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "injected", Lifecycle: hook})
		})
	},
	"an annotation of a pod": func(s *Snapshot) bool {
		return each(s.Pods, func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "example.com/note", marker) })
	},
	"an annotation of a Service": func(s *Snapshot) bool {
		return each(s.Services, func(service *corev1.Service) { metav1.SetMetaDataAnnotation(&service.ObjectMeta, "note", marker) })
	},
	"an annotation of an Ingress": func(s *Snapshot) bool {
		ingress := unstructured.Unstructured{Object: map[string]any{"kind": "Ingress"}}
		ingress.SetAnnotations(map[string]string{"note": marker})
		s.Around = append(s.Around, ingress)
		return true
	},
}

// each changes all objects of a list, and reports whether there is one.
func each[T any](list []T, change func(*T)) bool {
	for i := range list {
		change(&list[i])
	}
	return len(list) > 0
}

// inTemplate adds the marker to the variables of a template.
func inTemplate(template *corev1.PodTemplateSpec) {
	template.Spec.Containers = append(template.Spec.Containers, withMarker("more"))
}

// written returns pointers to what others than the operator write: the statuses of one object of each type, with its name, and an event.
func written(s *Snapshot) map[string]any {
	all := map[string]any{"resource": &s.Resource.Status}
	for i := range s.Pods { // The cases share them.
		s.Pods[i].Status = *s.Pods[i].Status.DeepCopy()
	}
	add := func(name string, n int, at func(i int) any) {
		if n > 0 {
			all[name] = at(min(2, n-1))
		}
	}
	add("Deployment", len(s.Deployments), func(int) any { return &s.Deployments[0].Status })
	add("StatefulSet", len(s.StatefulSets), func(i int) any { return &s.StatefulSets[i].Status })
	add("ReplicaSet", len(s.ReplicaSets), func(i int) any { return &s.ReplicaSets[i].Status })
	add("HorizontalPodAutoscaler", len(s.Autoscalers), func(i int) any { return &s.Autoscalers[i].Status })
	add("PersistentVolumeClaim", len(s.Claims), func(int) any { return &s.Claims[0].Status })
	add("CronJob", len(s.CronJobs), func(i int) any { return &s.CronJobs[i].Status })
	add("Job", len(s.Jobs), func(i int) any { return &s.Jobs[i].Status })
	add("Pod", len(s.Pods), func(i int) any { return &s.Pods[i].Status })
	add("the last Pod", len(s.Pods), func(int) any { return &s.Pods[len(s.Pods)-1].Status })
	add("Event", len(s.Events), func(i int) any { return &s.Events[i] })
	return all
}

// textsOf calls a function with each text in a value, and its path. With grow, lists and pointers that are empty get a value first.
func textsOf(v reflect.Value, path string, grow bool, visit func(path string, text reflect.Value)) {
	switch v.Kind() {
	case reflect.String:
		visit(path, v)
	case reflect.Pointer:
		if v.IsNil() && grow && v.Type() != reflect.TypeFor[*metav1.Time]() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if !v.IsNil() {
			textsOf(v.Elem(), path, grow, visit)
		}
	case reflect.Slice:
		if v.Len() == 0 && grow {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			textsOf(v.Index(i), fmt.Sprintf("%s[%d]", path, i), grow, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			// An object without its identity, or of another owner, is on no page.
			if f := v.Type().Field(i); f.IsExported() && !slices.Contains([]string{"ObjectMeta", "UID"}, f.Name) {
				textsOf(v.Field(i), path+"."+f.Name, grow, visit)
			}
		}
	default:
	}
}

// TestPublicSources has a value in each place that a value comes from, and in all texts of all statuses and events. No view has it.
func TestPublicSources(t *testing.T) {
	for source, add := range sources {
		found := false
		for name := range cases() {
			s := cases()[name]
			has := add(s)
			found = has || found
			for _, at := range written(s) {
				textsOf(reflect.ValueOf(at).Elem(), "", false, func(_ string, text reflect.Value) { text.SetString("said: " + marker + ".") })
			}
			if text := allViews(s.PublicCopy()); has && strings.Contains(text, marker) {
				t.Errorf("%s, %s: a view has the value: %s", source, name, around(text))
			}
		}
		if !found {
			t.Errorf("no case has %s", source)
		}
	}
}

// around returns the surroundings of the marker in a text.
func around(text string) string {
	at := strings.Index(text, marker)
	return text[max(0, at-200):min(len(text), at+100)]
}

// TestPublicTexts has a value of a variable in each text of each status and event, one at a time and all together. Some are on a page of a user, and no
// one is on a page of a viewer.
func TestPublicTexts(t *testing.T) {
	shownPaths := map[string]bool{}
	for name := range cases() {
		try := func(of, only string, grow bool) (visited []string) {
			s := cases()[name]
			sources["a canary"](s)
			textsOf(reflect.ValueOf(written(s)[of]).Elem(), of, grow, func(path string, text reflect.Value) {
				visited = append(visited, path)
				if only == "" || path == only {
					text.SetString(marker)
				}
			})
			if strings.Contains(allViews(s), marker) {
				shownPaths[only] = true
			}
			if text := allViews(s.PublicCopy()); strings.Contains(text, marker) {
				t.Errorf("%s, %s: %s", name, cmp.Or(only, of), around(text))
			}
			return visited
		}
		for of := range written(cases()[name]) {
			try(of, "", true)
			for _, path := range try(of, "", false) {
				try(of, path, false)
			}
		}
	}
	for _, path := range []string{
		"resource.Conditions[0].Message", "Pod.Reason", "Pod.ContainerStatuses[0].State.Waiting.Message",
		"Event.Message", "Event.Reason", "Job.Conditions[0].Reason",
	} {
		if !shownPaths[path] {
			t.Errorf("a user sees no text of %s: it is not tried", path)
		}
	}
}

// TestPublicCauses has a value in the messages from which a view makes a cause: of an evicted pod, a pod that no node takes, an autoscaler
// and a route.
func TestPublicCauses(t *testing.T) {
	const said = "denied: " + marker
	for name, write := range map[string]func(*Snapshot){
		"evicted": func(s *Snapshot) {
			s.Pods[2].Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: marker, Message: said}
		},
		"unschedulable": func(s *Snapshot) {
			s.Pods[2].Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: said,
			}}}
		},
		"autoscaler": func(s *Snapshot) {
			s.Autoscalers[0].Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{
				Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, Reason: "FailedGetScale", Message: said,
			}}
		},
		"route": func(s *Snapshot) {
			route := unstructured.Unstructured{Object: map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": kindRoute}}
			route.Object["status"] = map[string]any{"parents": []any{map[string]any{
				"parentRef": map[string]any{"name": "public"}, "controllerName": "example.com/c",
				"conditions": []any{map[string]any{"type": "Accepted", "status": "False", "reason": "No", "message": said, "lastTransitionTime": nil}},
			}}}
			route.Object["spec"] = map[string]any{"parentRefs": []any{map[string]any{"name": "public"}}}
			route.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(&s.Resource.ObjectMeta, appv1.GroupVersion.WithKind("App"))})
			s.Around = append(s.Around, route)
		},
	} {
		s := cases()["progressing"]
		sources["a Deployment"](s)
		write(s)
		if text := allViews(s); !strings.Contains(text, marker) {
			t.Errorf("%s: a user sees nothing of it", name)
		}
		if text := allViews(s.PublicCopy()); strings.Contains(text, marker) {
			t.Errorf("%s: %s", name, around(text))
		}
	}
}

// TestHiddenForms hides a value in the forms in which texts repeat it, and keeps words that are no secret.
func TestHiddenForms(t *testing.T) {
	long := "begin-" + strings.Repeat("x", 2000)
	for text, value := range map[string]string{
		`cannot run "a \"quoted\" word\n"`:           "a \"quoted\" word\n",
		"the second line alone: second-line.":        "first-line\nsecond-line\n",
		"an escape \x1b[2Jgone":                      "\x1b[2Jgone",
		strings.Repeat("-", mostWhole) + long[:500]:  long,
		"in the middle of quo\u200bted\u00ad-value":  "quoted-value",
		"of a flag: quoted-value":                    "--password=quoted-value",
		"of a header: quoted-value":                  "Bearer quoted-value",
		"of a URL: quoted-value":                     "postgres://user:quoted-value@db/shop",
		"of a URL with an @: p@quoted-value":         "postgres://user:p@quoted-value@db/shop",
		"of a URL in a flag: quoted-value":           "--db=postgres://user:quoted-value@db/shop",
		"of a query: quoted-value":                   "/ready?token=quoted-value&a=b",
		"of JSON: quoted-value":                      `{"password":"quoted-value"}`,
		`of JSON in ASCII: quoted-p\u00e4ss`:         "quoted-päss",
		"of an encoded URL: quoted%2Fp%C3%A4ss+word": "quoted/päss word",
		strings.Repeat("-", mostWhole) + "begin-xx…": long,
		strings.Repeat("-", mostWhole) + "gone":      "g\u200bo\u200bne",
	} {
		v := values{}
		v.addValue(value)
		got := v.newHider("")(text)
		if !strings.Contains(got, hidden) || strings.Contains(got, "quoted") || strings.Contains(got, "second-line.") || strings.Contains(got, "gone") || strings.Contains(got, "begin-x") {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	v := values{}
	for _, value := range []string{"CrashLoopBackOff", "true", "cart-production", "1234567"} {
		v.addValue(value)
	}
	many := values{found: map[string]bool{}}
	for i := range mostHidden + 1 {
		many.found[fmt.Sprintf("value-%d", i)] = true
	}
	if got := many.newHider("")("words"); got != hidden {
		t.Errorf("with %d values, the words are %q", len(many.found), got)
	}
	if got := v.newHider("cart-production\ncart")("true 1234567 cart-production"); got != "true 1234567 cart-production" {
		t.Errorf("%q", got)
	}
	status := publicTexts(corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "CrashLoopBackOff"}, v.newHider(""))
	if status.Reason != "CrashLoopBackOff" || status.Message != hidden {
		t.Errorf("%+v", status)
	}
}

// TestPublicRow has a value of a variable in the status of a row of the list.
func TestPublicRow(t *testing.T) {
	for name := range cases() {
		s := cases()[name]
		if !sources["spec.envs"](s) {
			continue
		}
		for i := range s.Resource.Status.Conditions {
			s.Resource.Status.Conditions[i].Message = "said: " + marker
		}
		s.Resource.Status.Pending = []string{"1 object waits", "envs: " + marker}
		public, own := encode(PublicRow(&s.Resource)), encode(RowOf(&s.Resource))
		if strings.Contains(public, marker) {
			t.Errorf("%s: %s", name, public)
		}
		if name == "image" && !strings.Contains(own, marker) {
			t.Errorf("a user's row is %s", own)
		}
	}
}
