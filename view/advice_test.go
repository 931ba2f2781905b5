package view

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// engineMessages returns the messages of the engine by the names of their constants.
func engineMessages(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../internal/apply/messages.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) == 0 {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			text, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[spec.Names[0].Name] = strings.NewReplacer("%s: \"true\"", appv1.AnnotationAdopt+": \"true\"", "%s", "x").Replace(text)
		}
		return true
	})
	return found
}

// TestAdviceOnExistingObjects advises to adopt an object only where the operator offers it, and with a restart for a kind that needs one.
func TestAdviceOnExistingObjects(t *testing.T) {
	messages := engineMessages(t)
	for name, offered := range map[string]bool{
		"messageNotOwned": true, "messageOrphaned": true,
		"messageOwnedByOther": false, "messageConcernsOthers": false, "messageRetainedForOther": false,
	} {
		message := messages[name]
		if message == "" {
			t.Fatalf("%s is no message of the engine any more", name)
		}
		for _, kind := range Kinds {
			r, _ := Of(kind.New())
			r.ObjectMeta.Name = "web"
			got := strings.Join((&Snapshot{Resource: r}).advise(appv1.ReasonResourceExists, message), "\n")
			command := "kubectl happ adopt " + argument(r.Kind, r.ObjectMeta.Name)
			if !kind.Holds {
				command += " --restart"
			}
			if strings.Contains(got, "kubectl happ adopt") != offered || offered && !strings.Contains(got, `"`+command+`"`) {
				t.Errorf("%s, %s: offered is %t, the advice is %s", name, kind.Name, offered, got)
			}
			both := (&Snapshot{Resource: r}).advise(appv1.ReasonResourceExists, messages["messageNotOwned"]+". "+message)
			if !offered && strings.Contains(strings.Join(both, "\n"), "kubectl happ adopt") {
				t.Errorf("%s, %s: an object of two cannot be adopted, the advice is %s", name, kind.Name, both)
			}
		}
	}
}

// TestAdviceOnPausedRollouts advises to resume rollouts that are paused, whether or not Deployments can be listed.
func TestAdviceOnPausedRollouts(t *testing.T) {
	const message = `Deployment cart: 4 of 6 pods updated; its rollouts are paused; resume them with "kubectl rollout resume deployment/cart"`
	const resume = "kubectl rollout resume deployment/cart"
	snapshot := func(reason string) *Snapshot {
		s := rollout(newApp("nginx:1.17.0", condition(appv1.ConditionReady, metav1.ConditionFalse, reason, message)), notStarted)
		s.Deployments[0].Spec.Paused = true
		return s
	}
	s := snapshot(appv1.ReasonProgressing)
	w := WhyOf(s, 0)
	if got := strings.Join(w.Advice, "\n"); !strings.HasSuffix(got, resume) || strings.Contains(got, "Nothing yet") {
		t.Errorf("the advice is %s", got)
	}
	s.Deployments, s.Missing = nil, []Missing{{kindsDeployments, "you may not list them in shop"}}
	if got := strings.Join(WhyOf(s, 0).Advice, "\n"); !strings.HasSuffix(got, resume) {
		t.Errorf("without Deployments, the advice is %s", got)
	}
	if got := strings.Join(WhyOf(snapshot(appv1.ReasonImagePullBackOff), 0).Advice, "\n"); !strings.Contains(got, resume) || !strings.Contains(got, "Fix spec.image") {
		t.Errorf("of an image that cannot be pulled, the advice is %s", got)
	}
	running := rollout(newApp("nginx:1.17.0", condition(appv1.ConditionReady, metav1.ConditionFalse, appv1.ReasonProgressing, "4 of 6")), notStarted)
	if got := strings.Join(WhyOf(running, 0).Advice, "\n"); !strings.Contains(got, "kubectl happ wait cart") {
		t.Errorf("of a rollout that is not paused, the advice is %s", got)
	}
}

// TestAdviceNamesTheResource checks that each command that an advice names has the name of its resource.
func TestAdviceNamesTheResource(t *testing.T) {
	for reason, known := range advices {
		for _, rest := range strings.Split(known.text, "kubectl happ ")[1:] {
			words := strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune(" ,;.\"", r) })
			if len(words) < 2 || words[1] != "NAME" {
				t.Errorf("%s: the command %q has no name", reason, rest)
			}
		}
	}
}
