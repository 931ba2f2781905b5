package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// TestAdviceKeepsWhatServes follows each advice of "why" and "import" that names a command or a change, in a namespace that has this trouble
// where the cluster of the tests can have it: each Service keeps its selector and its labels, and leads to as many pods as before all the time.
func TestAdviceKeepsWhatServes(t *testing.T) {
	t.Parallel()
	advised := map[string]bool{}
	for _, clause := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(adviceOfWhy(t), adviceOfImport(t))))) {
		if asksForNothing(clause) {
			continue
		}
		if advised[clause] = true; stories[clause] == nil {
			t.Errorf("no story follows the advice %q", clause)
		}
	}
	for _, clause := range slices.Sorted(maps.Keys(stories)) {
		if !advised[clause] {
			t.Errorf("nothing advises %q any more", clause)
			continue
		}
		t.Run(strings.ReplaceAll(clause, ",", ""), func(t *testing.T) {
			t.Parallel()
			stories[clause](t, clause)
		})
	}
}

// inAnyNamespace is the end of a command in a clause.
const inAnyNamespace = " -n NAMESPACE"

var (
	clauseEnd      = regexp.MustCompile(`[.;] |, or,? |[.;]$`)
	namespaceFlag  = regexp.MustCompile(` -n [a-z0-9-]+`)
	argumentOfKind = regexp.MustCompile(`(modelbox|uniteddeployment|cloudmanager|task)/web`)
	printedCommand = regexp.MustCompile(`kubectl .*?` + inAnyNamespace)
	readingCommand = regexp.MustCompile(`kubectl (logs|describe|happ (check|list|logs|plan|tree|wait|why)) `)
	// remark matches the beginning of a clause that asks for no change.
	remark = regexp.MustCompile(`^(Nothing|Ask|Check|Look|Read|read|See|Some|If|The|Until|Follow|To see|Why|Change it in Git|State no|This|the|it|a|an App|with) ?`)
)

// clausesOf returns the clauses of advice, without what differs between namespaces and between kinds.
func clausesOf(lines []string) []string {
	var clauses []string
	for _, line := range lines {
		line = argumentOfKind.ReplaceAllString(namespaceFlag.ReplaceAllString(line, inAnyNamespace), "web")
		for _, kind := range view.Kinds {
			line = strings.ReplaceAll(line, "The "+kind.Name+" is paused", "It is paused")
		}
		for _, clause := range clauseEnd.Split(line, -1) {
			clause = strings.TrimPrefix(strings.TrimPrefix(clause, "or "), "otherwise ")
			if clause != "" {
				clauses = append(clauses, clause)
			}
		}
	}
	return clauses
}

// asksForNothing reports whether a clause names no command that writes, and no change.
func asksForNothing(clause string) bool {
	writes := strings.Contains(clause, "kubectl ") && !readingCommand.MatchString(clause) && !strings.Contains(clause, "This kubectl happ")
	return !writes && remark.MatchString(clause)
}

// adviceOfWhy returns the clauses of the advice about each reason of each kind: of a resource that is paused, whose rollouts are paused, which
// is applied from Git, or in whose way is an object that can be adopted.
func adviceOfWhy(t *testing.T) []string {
	t.Helper()
	const adoptable = "exists and was not created by this resource; " + appv1.AnnotationAdopt + "="
	var clauses []string
	for _, kind := range view.Kinds {
		for _, reason := range reasonsOfAPI(t) {
			for _, message := range []string{"words", adoptable} {
				for _, change := range []func(*view.Snapshot){
					func(*view.Snapshot) {},
					func(s *view.Snapshot) { s.Resource.Paused, s.Deployments[0].Spec.Paused = true, true },
					func(s *view.Snapshot) {
						s.Resource.ObjectMeta.Labels = map[string]string{"argocd.argoproj.io/instance": "shop"}
					},
					func(s *view.Snapshot) { s.Deployments, s.ReplicaSets, s.Pods = nil, nil, nil },
					func(s *view.Snapshot) { // The pods differ by their defaults alone.
						s.ReplicaSets[1].Annotations = maps.Clone(s.ReplicaSets[0].Annotations)
						s.ReplicaSets[1].Annotations["deployment.kubernetes.io/revision"] = "1"
					},
				} {
					s := snapshotOf(kind, reason, message)
					change(s)
					clauses = append(clauses, clausesOf(view.WhyOf(s, 0).Advice)...)
				}
			}
		}
	}
	return clauses
}

// reasonsOfAPI returns the values of all Reason constants of the API.
func reasonsOfAPI(t *testing.T) []string {
	t.Helper()
	var found []string
	inspect(t, filepath.Join("api", "v1", "conditions.go"), func(n ast.Node) {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Reason") {
			found = append(found, textOf(t, spec.Values[0]))
		}
	})
	if len(found) < 40 {
		t.Fatalf("only %d reasons found", len(found))
	}
	return found
}

// inspect calls do for each node of a source file.
func inspect(t *testing.T, path string, do func(ast.Node)) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(harness.Root(), path), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		do(n)
		return true
	})
}

// textOf returns the value of an expression of string literals; other parts of it are empty.
func textOf(t *testing.T, expression ast.Expr) string {
	t.Helper()
	switch e := expression.(type) {
	case *ast.BinaryExpr:
		return textOf(t, e.X) + textOf(t, e.Y)
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	return ""
}

// snapshotOf returns a resource that is not Ready for a reason, has an earlier revision which serves, and a pod in trouble.
func snapshotOf(kind view.Kind, reason, message string) *view.Snapshot {
	owned := func(name, uid, by string) metav1.ObjectMeta {
		meta := fixture.Meta("shop", name)
		meta.UID, meta.OwnerReferences = types.UID(uid), []metav1.OwnerReference{{UID: types.UID(by), Controller: ptr.To(true)}}
		return meta
	}
	r, _ := view.ResourceOf(kind.New())
	r.ObjectMeta = fixture.Meta("shop", "web")
	r.ObjectMeta.UID, r.ObjectMeta.Generation, r.Status.ObservedGeneration = "1", 2, 2
	r.Status.Conditions = []metav1.Condition{
		{Type: appv1.ConditionStalled, Status: metav1.ConditionTrue, Reason: reason, Message: message},
		{Type: appv1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message},
	}
	s := &view.Snapshot{Resource: r, Deployments: []appsv1.Deployment{{ObjectMeta: owned("web", "2", "1")}}}
	for i, name := range []string{"web-new", "web-old"} {
		rs := appsv1.ReplicaSet{ObjectMeta: owned(name, name, "2")}
		rs.Annotations = map[string]string{"deployment.kubernetes.io/revision": strconv.Itoa(2 - i), appv1.AnnotationLastAppliedSpec: fmt.Sprintf(`{"image":"a:%d"}`, i)}
		pod := corev1.Pod{ObjectMeta: owned(name+"-1", name+"-1", name)}
		pod.Spec.Containers = []corev1.Container{{Name: "main"}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if i == 0 {
			pod.Status.Conditions = nil
		}
		s.ReplicaSets, s.Pods = append(s.ReplicaSets, rs), append(s.Pods, pod)
	}
	return s
}

// adviceOfImport returns the clauses of the comments of an import that follow the field and its state.
func adviceOfImport(t *testing.T) []string {
	t.Helper()
	var clauses []string
	files, err := filepath.Glob(filepath.Join(harness.Root(), "plugin", "view", "import*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		inspect(t, filepath.Join("plugin", "view", filepath.Base(file)), func(n ast.Node) {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 {
				return
			}
			if of, ok := call.Fun.(*ast.SelectorExpr); ok && of.Sel.Name == "addNote" {
				if said := clausesOf([]string{textOf(t, call.Args[2])}); len(said) > 1 {
					clauses = append(clauses, said[1:]...)
				}
			}
		})
	}
	if len(clauses) == 0 {
		t.Fatal("no note of an import has a clause")
	}
	return append(clauses, "take over what exists, without a restart: kubectl happ adopt web"+inAnyNamespace)
}
