package play

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Stage is a cluster with the operator, in which a story takes place: the world of the controllers' tests, or an API server.
type Stage interface {
	// Namespace is the namespace of all objects.
	Namespace() string
	// Create, Read, Change, ChangeStatus and Delete write and read as users and Kubernetes' controllers do. Change and ChangeStatus
	// need an object that was read.
	Create(t testing.TB, objects ...client.Object)
	Read(t testing.TB, obj client.Object)
	Change(t testing.TB, obj client.Object, mutate func(), opts ...client.PatchOption)
	ChangeStatus(t testing.TB, obj client.Object, mutate func())
	Delete(t testing.TB, obj client.Object, opts ...client.DeleteOption)
	// Until has the operator work until a function returns no error.
	Until(t testing.TB, done func() error)
	// Count has the operator work until it has nothing to do, and fails the test unless its requests since ResetCount are those wanted.
	// It counts writes, events and reads that do not come from the cache, such as "patch deployments".
	Count(t testing.TB, what string, want map[string]int)
	ResetCount(t testing.TB)
	// Restart ends the operator and starts another one.
	Restart(t testing.TB)
}

// Story is a story of one resource by the name web: what users and Kubernetes' controllers do, and what the operator then does.
type Story struct {
	Stage
	testing.TB
	kind, plural string
	// pod is the one pod that there is, nil for none.
	pod *corev1.Pod
}

// NewStory returns a story of a resource of a kind that has one Deployment.
func NewStory(t testing.TB, stage Stage, kind, plural string) *Story {
	return &Story{Stage: stage, TB: t, kind: kind, plural: plural}
}

const storyName = "web"

// Resource returns the resource, to be read.
func (s *Story) Resource() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(appv1.GroupVersion.WithKind(s.kind))
	u.SetNamespace(s.Namespace())
	u.SetName(storyName)
	return u
}

// ReadDeployment returns the Deployment.
func (s *Story) ReadDeployment() *appsv1.Deployment {
	s.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace(), Name: storyName}}
	s.Read(s.TB, d)
	return d
}

// CreateResource creates the resource, of two pods of the image nginx:1 and one port, with further fields of its spec.
func (s *Story) CreateResource(further map[string]any) {
	s.Helper()
	u := s.Resource()
	spec := map[string]any{"image": "nginx:1", "replicas": int64(2), "ports": []any{map[string]any{"port": int64(80)}}}
	for key, value := range further {
		spec[key] = value
	}
	u.Object["spec"] = spec
	s.Create(s.TB, u)
}

// SetField sets a field of the spec; nil removes it.
func (s *Story) SetField(name string, value any) {
	s.Helper()
	u := s.Resource()
	s.Read(s.TB, u)
	s.Change(s.TB, u, func() {
		if value == nil {
			unstructured.RemoveNestedField(u.Object, "spec", name)
			return
		}
		if err := unstructured.SetNestedField(u.Object, value, "spec", name); err != nil {
			s.Fatal(err)
		}
	})
}

// Image sets the image of the spec.
func (s *Story) Image(image string) {
	s.Helper()
	s.SetField("image", image)
}

// Annotate sets an annotation of the resource; an empty value removes it.
func (s *Story) Annotate(key, value string) {
	s.Helper()
	u := s.Resource()
	s.Read(s.TB, u)
	s.Change(s.TB, u, func() {
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		if value == "" {
			delete(annotations, key)
		}
		u.SetAnnotations(annotations)
	})
}

// status is what stories assert of a status.
type status struct {
	appv1.WorkloadStatus `json:",inline"`
	appv1.HistoryStatus  `json:",inline"`
}

// status returns the status of the resource, and its generation.
func (s *Story) status() (found status, generation int64) {
	s.Helper()
	u := s.Resource()
	s.Read(s.TB, u)
	fields, _, err := unstructured.NestedMap(u.Object, "status")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &found)
	}
	if err != nil {
		s.Fatal(err)
	}
	return found, u.GetGeneration()
}

// Stands has the operator work until the conditions of the resource are those given, each as "Type=Status" or "Type=Status/Reason", for
// its current spec.
func (s *Story) Stands(conditions ...string) {
	s.Helper()
	s.Until(s.TB, func() error {
		found, generation := s.status()
		if found.ObservedGeneration != generation {
			return fmt.Errorf("generation is %d, the status that of %d", generation, found.ObservedGeneration)
		}
		for _, want := range conditions {
			name, _, _ := strings.Cut(want, "=")
			c := ptr.Deref(meta.FindStatusCondition(found.Conditions, name), metav1.Condition{})
			if is := fmt.Sprintf("%s=%s/%s", name, c.Status, c.Reason); is != want && !strings.HasPrefix(is, want+"/") {
				return fmt.Errorf("%s (%s), want %s", is, c.Message, want)
			}
		}
		return nil
	})
}

// Says fails the test unless the message of a condition has all words.
func (s *Story) Says(condition string, words ...string) {
	s.Helper()
	found, _ := s.status()
	message := ptr.Deref(meta.FindStatusCondition(found.Conditions, condition), metav1.Condition{}).Message
	for _, word := range words {
		if !strings.Contains(message, word) {
			s.Errorf("%s does not say %q: %s", condition, word, message)
		}
	}
}

// SaysNothingOf fails the test if a condition has a text in its message.
func (s *Story) SaysNothingOf(text string) {
	s.Helper()
	found, _ := s.status()
	for _, c := range found.Conditions {
		if strings.Contains(c.Message, text) {
			s.Errorf("%s says %q: %s", c.Type, text, c.Message)
		}
	}
}

// Runs has the operator work until the Deployment has an image.
func (s *Story) Runs(image string) {
	s.Helper()
	s.Until(s.TB, func() error {
		if got := s.ReadDeployment().Spec.Template.Spec.Containers[0].Image; got != image {
			return fmt.Errorf("the image is %s, want %s", got, image)
		}
		return nil
	})
}

// Wrote does something, and fails the test unless the requests of the operator then are those wanted. STATUS stands for the status of the
// resource.
func (s *Story) Wrote(what string, do func(), want ...string) {
	s.Helper()
	s.Count(s.TB, "before "+what, nil)
	s.ResetCount(s.TB)
	do()
	counts := map[string]int{}
	for _, request := range want {
		counts[strings.ReplaceAll(request, "STATUS", s.plural+"/status")]++
	}
	s.Count(s.TB, what, counts)
}

// MakeReplicaSet creates the ReplicaSet web-HASH of the Deployment's template, and has its pods run.
func (s *Story) MakeReplicaSet(hash string) *appsv1.ReplicaSet {
	s.Helper()
	set := NewReplicaSet(s.ReadDeployment(), hash)
	s.Create(s.TB, set)
	s.RunPods(set)
	return set
}

// RunPods has a pod of a ReplicaSet be all that runs, and the Deployment be available with it.
func (s *Story) RunPods(set *appsv1.ReplicaSet) {
	s.Helper()
	if s.pod != nil {
		s.Delete(s.TB, s.pod)
	}
	pod := NewPod(set)
	pod.GenerateName, pod.Name = "", set.Name+"-pod"
	s.Create(s.TB, pod)
	s.pod = pod
	s.MakeAvailable()
}

// WipeStatus removes the status of the resource.
func (s *Story) WipeStatus() {
	s.Helper()
	u := s.Resource()
	s.Read(s.TB, u)
	s.ChangeStatus(s.TB, u, func() { delete(u.Object, "status") })
}

// MakeAvailable has all pods of the Deployment be available.
func (s *Story) MakeAvailable() {
	s.Helper()
	d := s.ReadDeployment()
	s.ChangeStatus(s.TB, d, func() { SetAvailable(d) })
}

// TimeOut has the rollout of the Deployment make no progress in time.
func (s *Story) TimeOut() {
	s.Helper()
	d := s.ReadDeployment()
	s.ChangeStatus(s.TB, d, func() { SetTimedOut(d) })
}

// IsLastGood has the operator work until the status names a ReplicaSet as the last good one.
func (s *Story) IsLastGood(set *appsv1.ReplicaSet) {
	s.Helper()
	s.Until(s.TB, func() error {
		found, _ := s.status()
		if good := found.LastGood; good == nil || good.ReplicaSet != set.Name {
			s.MakeAvailable() // The pod may be seen later than the figures.
			return fmt.Errorf("the history is %+v", found.HistoryStatus)
		}
		return nil
	})
}

// SameTemplate fails the test unless the Deployment has the template of a ReplicaSet.
func (s *Story) SameTemplate(set *appsv1.ReplicaSet) {
	s.Helper()
	want := set.Spec.Template.DeepCopy()
	delete(want.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	if got := s.ReadDeployment().Spec.Template; !equality.Semantic.DeepEqual(*want, got) {
		s.Errorf("the template is not that of ReplicaSet %s:\n%+v\n%+v", set.Name, got, *want)
	}
}

// Unmarked fails the test if the Deployment has the mark of an earlier spec.
func (s *Story) Unmarked() {
	s.Helper()
	if mark := s.ReadDeployment().Annotations[appv1.AnnotationHeld]; mark != "" {
		s.Errorf("the mark is left: %s", mark)
	}
}
