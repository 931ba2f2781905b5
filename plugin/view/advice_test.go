package view

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// engineMessages returns the messages of the engine by the names of their constants.
func engineMessages(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../internal/claim/messages.go", nil, 0)
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
			found[spec.Names[0].Name] = strings.NewReplacer("run \"%s\"", "run \"kubectl annotate app/web -n shop "+appv1.AnnotationAdopt+"=true\"", "%s", "x").Replace(text)
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
			r, _ := ResourceOf(kind.New())
			r.ObjectMeta.Namespace, r.ObjectMeta.Name = "shop", "web"
			got := strings.Join((&Snapshot{Resource: r}).remediesFor(appv1.ReasonResourceExists, message), "\n")
			command := r.PluginCommand("adopt")
			if !kind.Holds && !kind.Scheduled {
				command = r.PluginCommand("adopt", "--restart")
			}
			if strings.Contains(got, "kubectl happ adopt") != offered || offered && !strings.Contains(got, command) {
				t.Errorf("%s, %s: offered is %t, the advice is %s", name, kind.Name, offered, got)
			}
			both := (&Snapshot{Resource: r}).remediesFor(appv1.ReasonResourceExists, messages["messageNotOwned"]+". "+message)
			if !offered && strings.Contains(strings.Join(both, "\n"), "kubectl happ adopt") {
				t.Errorf("%s, %s: an object of two cannot be adopted, the advice is %s", name, kind.Name, both)
			}
		}
	}
}

// TestAdviceOnPausedRollouts advises to resume rollouts that are paused. Where Deployments cannot be listed, it refers to the message, which
// has the command.
func TestAdviceOnPausedRollouts(t *testing.T) {
	const message = `Deployment cart: 4 of 6 pods updated; its rollouts are paused; resume them with "kubectl rollout resume deployment/cart -n shop"`
	const resume = "kubectl rollout resume deployment/cart -n shop"
	snapshot := func(reason string) *Snapshot {
		s := rollout(newApp("nginx:1.17.0", condition(appv1.ConditionReady, metav1.ConditionFalse, reason, message)), notStarted)
		s.Deployments[0].Spec.Paused = true
		return s
	}
	s := snapshot(appv1.ReasonRolloutPaused)
	w := WhyOf(s, 0)
	if got := strings.Join(w.Advice, "\n"); !strings.HasSuffix(got, resume) || strings.Contains(got, "Nothing yet") {
		t.Errorf("the advice is %s", got)
	}
	s.Deployments, s.Missing = nil, []Missing{{kindsDeployments, "you may not list them in shop"}}
	if got := strings.Join(WhyOf(s, 0).Advice, "\n"); got != "Resume the rollouts with the command that the message names." {
		t.Errorf("without Deployments, the advice is %s", got)
	}
	if got := strings.Join(WhyOf(snapshot(appv1.ReasonImagePullBackOff), 0).Advice, "\n"); !strings.Contains(got, resume) || !strings.Contains(got, "Fix spec.image") {
		t.Errorf("of an image that cannot be pulled, the advice is %s", got)
	}
	running := rollout(newApp("nginx:1.17.0", condition(appv1.ConditionReady, metav1.ConditionFalse, appv1.ReasonProgressing, "4 of 6")), notStarted)
	if got := strings.Join(WhyOf(running, 0).Advice, "\n"); !strings.Contains(got, "kubectl happ wait cart -n shop") {
		t.Errorf("of a rollout that is not paused, the advice is %s", got)
	}
}

// TestAdviceCommands checks that the table has each command in braces and each command of the plug-in with the name of the resource, and
// that an advice with the pod of a cause has another text for a user who cannot list the pods.
func TestAdviceCommands(t *testing.T) {
	texts := map[string]advice{
		"adopt": {text: adviceAdopt + adviceOtherName}, "adopt with a restart": {text: adviceAdoptRestart + adviceRename}, "not adoptable": {text: adviceNotAdoptable},
	}
	maps.Copy(texts, advices)
	braces := regexp.MustCompile(`\{[^}]*\}`)
	for reason, known := range texts {
		for _, command := range braces.FindAllString(known.text, -1) {
			if !strings.HasPrefix(command, "{kubectl ") || strings.HasPrefix(command, "{"+plugin) && !strings.Contains(command, " NAME") {
				t.Errorf("%s: the command %s", reason, command)
			}
		}
		if rest := braces.ReplaceAllString(known.text, "") + known.blind; strings.Contains(rest, "kubectl") {
			t.Errorf("%s: a command without braces: %s", reason, rest)
		}
		if ofPod := strings.Contains(known.text, "POD") || strings.Contains(known.text, "CONTAINER"); ofPod != (known.blind != "") {
			t.Errorf("%s: names a pod is %t, but the text without pods is %q", reason, ofPod, known.blind)
		}
	}
	s := stalled(appv1.ReasonCrashLoopBackOff, "exits")
	s.Pods[2] = newPod("cart-7d9c4-x2x7k", "cart-7d9c4", "node-2", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
	const log = "kubectl logs cart-7d9c4-x2x7k -c cart --previous -n shop"
	if got := WhyOf(s, 0).Advice[0]; !strings.Contains(got, log) {
		t.Errorf("the advice is %q, want %q in it", got, log)
	}
	s.Pods, s.Missing = nil, []Missing{{kindsPods, "you may not list them in shop"}}
	if got := WhyOf(s, 0).Advice[0]; got != advices[appv1.ReasonCrashLoopBackOff].blind {
		t.Errorf("without pods, the advice is %q", got)
	}
}

// TestAdviceBreaksNothing checks each advice for what removes pods or endpoints: no advice deletes, or changes an object of another owner
// or its labels or selector. The commands that replace pods show their plan and ask first.
func TestAdviceBreaksNothing(t *testing.T) {
	harmful := regexp.MustCompile(`(?i)\bdelet(e|ing)\b|\brename or|\brelabel|\bits selector\b|(set|change|edit)[^.;]* (selector|labels?)\b|adopt: "?true`)
	texts := map[string]string{
		"adopt": adviceAdopt + adviceOtherName, "adopt with a restart": adviceAdoptRestart + adviceRename, "not adoptable": adviceNotAdoptable,
	}
	for reason, known := range advices {
		texts[reason] = known.text + " " + known.blind
	}
	for reason, text := range texts {
		if strings.Contains(text, "--yes") {
			t.Errorf("%s: a command that does not ask: %s", reason, text)
		}
	}
	for path, notes := range literals(t, ".") { // The comments of an import.
		for i, text := range notes {
			if filepath.Base(path) == "import.go" {
				texts[fmt.Sprintf("%s %d", path, i)] = text
			}
		}
	}
	for reason, text := range texts {
		if found := harmful.FindString(strings.ReplaceAll(text, "cannot change", "")); found != "" {
			t.Errorf("%s: %q: %s", reason, found, text)
		}
	}
	for _, text := range []string{"delete the object", "Rename or delete one", "set its selector to app=echo", "change the labels of the Service"} {
		if !harmful.MatchString(text) {
			t.Errorf("%q is not found harmful", text)
		}
	}
}

// TestAdviceRenamesNoOwner advises a resource to take another name only while it owns no pods: they would be deleted with it.
func TestAdviceRenamesNoOwner(t *testing.T) {
	for _, message := range engineMessages(t) {
		s := rollout(newApp("nginx:1.17.0"), notStarted)
		if got := strings.Join(s.remediesFor(appv1.ReasonResourceExists, message), "\n"); strings.Contains(strings.ToLower(got), "rename") {
			t.Errorf("with pods, the advice about %q is %s", message, got)
		}
		s.Deployments, s.ReplicaSets, s.Pods = nil, nil, nil
		if got := strings.Join(s.remediesFor(appv1.ReasonResourceExists, message), "\n"); !strings.Contains(strings.ToLower(got), "rename") {
			t.Errorf("without pods, the advice about %q is %s", message, got)
		}
		s.Missing = []Missing{{kindsDeployments, "you may not list them in shop"}}
		if got := strings.Join(s.remediesFor(appv1.ReasonResourceExists, message), "\n"); strings.Contains(strings.ToLower(got), "rename") {
			t.Errorf("where Deployments cannot be listed, the advice about %q is %s", message, got)
		}
	}
}

// TestCommand checks the quotes of arguments, and that a command states its namespace.
func TestCommand(t *testing.T) {
	for want, got := range map[string]string{
		"kubectl logs web-1 -c web -n shop":  CommandLine("shop", "kubectl logs", "web-1", "-c", "web"),
		"kubectl happ check -n shop":         PluginCommand("shop", "check"),
		"kubectl happ check":                 PluginCommand("", "check"),
		`kubectl logs 'a b;$(c)' '' -n shop`: CommandLine("shop", "kubectl logs", "a b;$(c)", ""),
		`kubectl logs 'it'\''s' -n shop`:     CommandLine("shop", "kubectl logs", "it's"),
	} {
		if got != want {
			t.Errorf("the command is %s, want %s", got, want)
		}
	}
}

// prose are the beginnings of texts that have the word kubectl and no command to run: names, and texts of help.
var prose = []string{
	"kubectl happ", "kubectl_complete-happ", "#!/bin/sh", "Write kubectl_complete-happ", "Print the completion", "Replace the pods", "Plan ",
	"%s %s: pods are replaced, as kubectl rollout restart does", "cannot be set in a pod template", "a dry run, and the operator answers",
	"%s was applied by the operator but has lost its owner reference", "See the message. This kubectl happ does not know",
}

// TestCommandsHaveANamespace reads the sources: a text with a command of kubectl is an argument of CommandLine or PluginCommand, is in braces
// in the table of advice, or states the namespace.
func TestCommandsHaveANamespace(t *testing.T) {
	command := regexp.MustCompile(`\bkubectl [a-z]`)
	checked := 0
	for _, folder := range []string{"..", "../../controllers", "../../internal", "../../resource", "../../webhooks", "../../api/v1"} {
		for path, literal := range literals(t, folder) {
			for _, text := range literal {
				checked++
				braced := regexp.MustCompile(`\{kubectl [^}]*\}`).ReplaceAllString(text, "")
				if !command.MatchString(braced) || strings.Contains(text, "-n %s") ||
					slices.ContainsFunc(prose, func(begin string) bool { return strings.HasPrefix(text, begin) }) {
					continue
				}
				t.Errorf("%s: %q: make it with view.CommandLine, or state the namespace", path, text)
			}
		}
	}
	if checked < 3000 {
		t.Errorf("only %d texts were read", checked)
	}
}

// literals returns the texts in the Go sources of a folder, by file, but those that are the program of a CommandLine.
func literals(t *testing.T, folder string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				name := ""
				switch of := call.Fun.(type) {
				case *ast.Ident:
					name = of.Name
				case *ast.SelectorExpr:
					name = of.Sel.Name
				}
				if name == "CommandLine" && len(call.Args) > 1 {
					if program, ok := call.Args[1].(*ast.BasicLit); ok {
						program.Value = `""`
					}
				}
			}
			if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].Name == "resumeRollouts" { // The program of a CommandLine.
				return false
			}
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				found[path] = append(found[path], text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
