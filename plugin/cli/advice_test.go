package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// reasonsOfAPI returns the values of all Reason constants of the API.
func reasonsOfAPI(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/v1/conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Reason") {
			if value, ok := spec.Values[0].(*ast.BasicLit); ok {
				reason, _ := strconv.Unquote(value.Value)
				found = append(found, reason)
			}
		}
		return true
	})
	if len(found) < 40 {
		t.Fatalf("only %d reasons found", len(found))
	}
	return found
}

// adviceOf returns what is advised about a reason of a resource of a kind that has an earlier revision which serves and a pod in trouble.
func adviceOf(kind view.Kind, reason, message string, change func(*view.Snapshot)) []string {
	r, _ := view.ResourceOf(kind.New())
	r.ObjectMeta, r.Status.ObservedGeneration = objectMeta("web"), 2
	r.Status.Conditions = []metav1.Condition{
		{Type: appv1.ConditionStalled, Status: metav1.ConditionTrue, Reason: reason, Message: message},
		{Type: appv1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message},
	}
	owned := func(name, uid, by string) metav1.ObjectMeta {
		meta := objectMeta(name)
		meta.UID, meta.OwnerReferences = types.UID(uid), []metav1.OwnerReference{{UID: types.UID(by), Controller: ptr.To(true)}}
		return meta
	}
	owner := "1"
	if kind.Scheduled { // A Task has no Deployment.
		owner = "others"
	}
	s := &view.Snapshot{Resource: r, Deployments: []appsv1.Deployment{{ObjectMeta: owned("web", "2", owner)}}}
	for i, name := range []string{"web-new", "web-old"} {
		rs := appsv1.ReplicaSet{ObjectMeta: owned(name, name, "2")}
		rs.Annotations = map[string]string{"deployment.kubernetes.io/revision": strconv.Itoa(2 - i), appv1.AnnotationLastAppliedSpec: fmt.Sprintf(`{"image":"a:%d"}`, i)}
		pod := corev1.Pod{ObjectMeta: owned(name+"-1", name+"-1", name)}
		pod.Spec.Containers = []corev1.Container{{Name: "main"}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if i == 0 {
			waiting := &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
			pod.Status.Conditions = nil
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: waiting}}}
		}
		s.ReplicaSets, s.Pods = append(s.ReplicaSets, rs), append(s.Pods, pod)
	}
	if change != nil {
		change(s)
	}
	return view.WhyOf(s, 0).Advice
}

// printed matches a command as texts have it: it ends with its namespace.
var printed = regexp.MustCompile(`kubectl [a-z][^,;"]*? -n [a-z0-9-]+`)

// allAdvice returns each command that is advised about any reason of any kind, and fails the test for a text with one that has no namespace.
func allAdvice(t *testing.T) []string {
	t.Helper()
	var commands []string
	note := func(lines []string) {
		for _, line := range lines {
			found := printed.FindAllString(line, -1)
			if named := strings.Count(line, "kubectl ") - strings.Count(line, "This kubectl happ"); len(found) != named {
				t.Errorf("%d commands with a namespace in %q", len(found), line)
			}
			commands = append(commands, found...)
		}
	}
	const adoptable = "exists and was not created by this resource; " + appv1.AnnotationAdopt + "="
	for _, kind := range view.Kinds {
		for _, reason := range append(reasonsOfAPI(t), "Unheard") {
			if !kind.Holds && slices.Contains([]string{appv1.ReasonHeld, appv1.ReasonRolledBack, appv1.ReasonRevisionNotFound, appv1.ReasonCanary}, reason) {
				continue
			}
			if kind.Scheduled && slices.Contains([]string{appv1.ReasonBeforeRolloutFailed, appv1.ReasonCanaryAborted}, reason) {
				continue
			}
			for _, message := range []string{"words", adoptable} {
				note(adviceOf(kind, reason, message, nil))
				note(adviceOf(kind, reason, message, func(s *view.Snapshot) { s.Deployments[0].Spec.Paused = true }))
				note(adviceOf(kind, reason, message, func(s *view.Snapshot) {
					s.Resource.ObjectMeta.Annotations = map[string]string{"meta.helm.sh/release-name": "x"}
				}))
				note(adviceOf(kind, reason, message, func(s *view.Snapshot) { s.Pods = nil }))
				note(adviceOf(kind, reason, message, func(s *view.Snapshot) { s.ReplicaSets[1].Annotations = maps.Clone(s.ReplicaSets[0].Annotations) }))
			}
		}
		note(adviceOf(kind, "", "", func(s *view.Snapshot) { // Not observed for long.
			s.Resource.Status.ObservedGeneration, s.Resource.ObjectMeta.CreationTimestamp, s.Now = 0, metav1.Unix(1, 0), metav1.Unix(1000, 0).Time
		}))
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}

// TestAdviceNamespace runs each advised command of the plug-in where the namespace of the context is the empty default one, with a cluster
// that notes which namespaces it is asked about, and parses those of kubectl with its flags. None is about another namespace.
func TestAdviceNamespace(t *testing.T) {
	commands := allAdvice(t)
	programs := map[string]bool{}
	for _, command := range commands {
		words := strings.Fields(command)
		if words[1] != "happ" {
			programs[words[1]] = true
			checkKubectl(t, command, words[1:])
			continue
		}
		programs["happ "+words[2]] = true
		f := newFakeServer(t, nil)
		asked := map[string]bool{}
		f.answer = func(q *http.Request, body string) runtime.Object {
			f.mu.Lock()
			defer f.mu.Unlock()
			if _, rest, found := strings.Cut(q.URL.Path, "/namespaces/"); found {
				namespace, _, _ := strings.Cut(rest, "/")
				asked[namespace] = true
			} else if strings.HasSuffix(q.URL.Path, "/selfsubjectaccessreviews") {
				asked[namespaceOf(t, body)] = true
			}
			return nil
		}
		t.Setenv("KUBECONFIG", t.TempDir()+"/none")
		code, _, said := run(t, nil, slices.Concat(words[2:], answered[words[2]], []string{"--server", f.url})...)
		f.mu.Lock()
		delete(asked, "")
		if len(asked) != 1 || !asked[namespaceOfTests] || code == exitError && !strings.Contains(said, "there is no") {
			t.Errorf("%s: exit status %d, asked about %v: %s", command, code, asked, said)
		}
		f.mu.Unlock()
	}
	for _, want := range []string{"happ adopt", "happ check", "happ hold", "happ rollback", "happ wait", "logs", "describe", "rollout", "create"} {
		if !programs[want] {
			t.Errorf("no advice has kubectl %s: %q", want, commands)
		}
	}
}

// answered are the flags of commands that ask first.
var answered = map[string][]string{"refresh": {"--yes"}, "hold": {"--yes"}, "unhold": {"--yes"}, "promote": {"--yes"}, "abort": {"--yes"}, "rollback": {"--yes"}, "adopt": {"--yes"}}

// namespaceOf returns the namespace that a review of rights is about.
func namespaceOf(t *testing.T, body string) string {
	t.Helper()
	var review authorizationv1.SelfSubjectAccessReview
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(body), nil, &review); err != nil {
		t.Error(err)
	}
	if attributes := review.Spec.ResourceAttributes; attributes != nil {
		return attributes.Namespace
	}
	return ""
}

// checkKubectl fails the test unless kubectl's flags take a command, and mean the namespace of the tests.
func checkKubectl(t *testing.T, command string, words []string) {
	t.Helper()
	flags, common := pflag.NewFlagSet(command, pflag.ContinueOnError), genericclioptions.NewConfigFlags(false)
	common.AddFlags(flags)
	if words[0] == "create" {
		flags.String("from", "", "")
	}
	if words[0] == "logs" {
		flags.BoolP("previous", "p", false, "")
		flags.StringP("container", "c", "", "")
	}
	if err := flags.Parse(words); err != nil || *common.Namespace != namespaceOfTests {
		t.Errorf("%s: namespace %q: %v", command, *common.Namespace, err)
	}
	if name := flags.Arg(flags.NArg() - 1); !slices.Contains([]string{"web-new-1", "deployment/web", "cronjob/web", "web-again"}, name) {
		t.Errorf("%s: is about %q", command, name)
	}
}
