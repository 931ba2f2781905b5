package resource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

var update = flag.Bool("update", false, "write what the builders make to testdata")

// goldenCase is what a case's input has next to the custom resource: what is observed, in a second document.
type goldenCase struct {
	Selector   map[string]string `json:"selector"`
	Inputs     *BuildInputs      `json:"inputs"`
	Autoscaled bool              `json:"autoscaled"`
	// OtherAutoscaler and LiveReplicas are those of BuildOptions.
	OtherAutoscaler bool   `json:"otherAutoscaler"`
	LiveReplicas    *int32 `json:"liveReplicas"`
	// Padding is how many characters "${PADDING}" stands for, in the input and in the output.
	Padding int `json:"padding"`
}

func (c *goldenCase) observed() BuildOptions {
	inputs := BuildInputs{Rendering: RenderingLatest}
	if c.Inputs != nil {
		inputs = *c.Inputs
	}
	return BuildOptions{Selector: c.Selector, Inputs: inputs, Autoscaled: c.Autoscaled, OtherAutoscaler: c.OtherAutoscaler, LiveReplicas: c.LiveReplicas}
}

// padding is text that does not compress.
func padding(length int) string {
	var text strings.Builder
	for sum := sha256.Sum256(nil); text.Len() < length; sum = sha256.Sum256(sum[:]) {
		text.WriteString(hex.EncodeToString(sum[:]))
	}
	return text.String()[:length]
}

// readCase reads a case's input: the custom resource into obj, and what is observed, if the file says so.
func readCase(t testing.TB, path string, obj any) goldenCase {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	resource, seen, _ := bytes.Cut(data, []byte("\n---\n"))
	var c goldenCase
	if err := yaml.UnmarshalStrict(seen, &c); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	resource = bytes.ReplaceAll(resource, []byte("${PADDING}"), []byte(padding(c.Padding)))
	if err := yaml.UnmarshalStrict(resource, obj); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return c
}

// cases returns the input files of a kind by the name of the case.
func cases(t testing.TB, kind string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", kind, "*.in.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases for %s: %v", kind, err)
	}
	byName := map[string]string{}
	for _, path := range paths {
		byName[strings.TrimSuffix(filepath.Base(path), ".in.yaml")] = path
	}
	return byName
}

// builder builds a case.
type builder func(BuildOptions) (*Workload, field.ErrorList)

// kinds has, by the name of its folder in testdata, how to build a case of a kind, or of one of its tiers.
var kinds = map[string]func(testing.TB, string) (goldenCase, builder){
	"app": func(t testing.TB, path string) (goldenCase, builder) {
		var app appv1.App
		c := readCase(t, path, &app)
		return c, func(seen BuildOptions) (*Workload, field.ErrorList) { return App(&app, seen) }
	},
	"modelbox": func(t testing.TB, path string) (goldenCase, builder) {
		var box appv1.ModelBox
		c := readCase(t, path, &box)
		return c, func(seen BuildOptions) (*Workload, field.ErrorList) { return ModelBox(&box, seen) }
	},
	"uniteddeployment": func(t testing.TB, path string) (goldenCase, builder) {
		var ud appv1.UnitedDeployment
		c := readCase(t, path, &ud)
		return c, func(seen BuildOptions) (*Workload, field.ErrorList) { return UnitedDeployment(&ud, seen) }
	},
	"cloudmanager-db":       tierOf(TierDatabase),
	"cloudmanager-identity": tierOf(TierIdentity),
	"cloudmanager-front":    tierOf(TierFront),
}

// built returns a function that takes what a builder returns, and fails the test if that is an error.
func built(t testing.TB) func(*Workload, field.ErrorList) *Workload {
	return func(w *Workload, errs field.ErrorList) *Workload {
		t.Helper()
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return w
	}
}

// objects returns all objects of a workload as one text of several YAML documents.
func objects(t testing.TB, w *Workload) string {
	t.Helper()
	objects := w.Objects()
	if len(w.Claims) > 0 {
		objects = slices.Insert(objects, 2, Object(Secret(w, map[string]string{SecretUsername: "root", SecretPassword: "secret"})),
			Object(Claim(w, "datadir-"+w.Name+"-0")))
	}
	var text strings.Builder
	for _, obj := range objects {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		delete(fields, "status") // Not ours to state.
		data, err := yaml.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "---\n%s", data)
	}
	return text.String()
}

// TestGolden compares the objects of each case with the ones that were looked at when they were written.
func TestGolden(t *testing.T) {
	for kind, read := range kinds {
		for name, path := range cases(t, kind) {
			t.Run(kind+"/"+name, func(t *testing.T) {
				c, build := read(t, path)
				got := objects(t, built(t)(build(c.observed())))
				if c.Padding > 0 {
					got = strings.ReplaceAll(got, padding(c.Padding), "${PADDING}")
				}
				file := strings.TrimSuffix(path, ".in.yaml") + ".golden.yaml"
				if *update {
					writeFile(t, file, got)
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatalf("%v; write it with: go test ./resource -update", err)
				}
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("objects (-want +got), to be written with -update once they are right:\n%s", diff)
				}
			})
		}
	}
}

// templates is the record of the pod templates that each rendering gives: by case, the digest of its input, and by
// rendering, the digest of the template.
type templates map[string]templateDigests

type templateDigests struct {
	Input      string           `json:"input"`
	Renderings map[int32]string `json:"renderings"`
}

// refusedCase stands for a template in a rendering that refuses the case.
const refusedCase = "refused"

const templatesFile = "testdata/templates.yaml"

const templatesHelp = `A pod template that a release has built must stay as it is, byte by byte: a changed one restarts every workload at
the next upgrade of the operator. Build the new template under a new number instead:
  1. raise RenderingLatest in buildinputs.go, and say next to it what the new rendering does otherwise;
  2. add it to Renderings, and let the builder branch on Inputs.Rendering, so that the older renderings give what they gave;
  3. record the new rendering with: go test ./resource -update
Only if a rendering was never released, delete its lines from %s instead, then -update.`

// allCases returns the input files of all kinds by "<kind>/<name>".
func allCases(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for kind := range kinds {
		for name, path := range cases(t, kind) {
			all[kind+"/"+name] = path
		}
	}
	return all
}

// TestTemplatesAreKept fails if a pod template's bytes change without a new rendering number.
func TestTemplatesAreKept(t *testing.T) {
	recorded := readTemplates(t)
	now, changed := templates{}, false
	for name, path := range allCases(t) {
		now[name] = digestCase(t, path)
		was, found := recorded[name]
		if !found || was.Input != now[name].Input {
			was = templateDigests{} // A new case.
		}
		for rendering, digest := range now[name].Renderings {
			switch before := was.Renderings[rendering]; before {
			case digest:
			case "":
				if !*update {
					t.Errorf("%s: rendering %d is not recorded in %s; record it with: go test ./resource -update", name, rendering, templatesFile)
				}
			default:
				t.Errorf("%s: the pod template of rendering %d has changed", name, rendering)
				changed = true
			}
		}
	}
	if changed {
		t.Errorf(templatesHelp, templatesFile)
	}
	if *update && !t.Failed() {
		data, err := yaml.Marshal(now)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, templatesFile, "# The digests of pod templates by rendering; golden_test.go says what they are for.\n"+string(data))
	}
	for name := range recorded {
		if _, found := now[name]; !found && !*update {
			t.Errorf("%s is recorded in %s and no case any more; go test ./resource -update", name, templatesFile)
		}
	}
}

// digestCase builds the case with every rendering there is.
func digestCase(t *testing.T, path string) templateDigests {
	t.Helper()
	input, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	digests := templateDigests{Input: digest(input), Renderings: map[int32]string{}}
	for _, rendering := range Renderings() {
		c, build := kinds[filepath.Base(filepath.Dir(path))](t, path)
		seen := c.observed()
		seen.Inputs.Rendering = rendering
		w, errs := build(seen)
		if len(errs) > 0 {
			digests.Renderings[rendering] = refusedCase
			continue
		}
		template, err := json.Marshal(w.Template)
		if err != nil {
			t.Fatal(err)
		}
		digests.Renderings[rendering] = digest(template)
	}
	return digests
}

func readTemplates(t *testing.T) templates {
	t.Helper()
	data, err := os.ReadFile(templatesFile)
	if errors.Is(err, fs.ErrNotExist) && *update {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var recorded templates
	if err := yaml.UnmarshalStrict(data, &recorded); err != nil {
		t.Fatal(err)
	}
	return recorded
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:12])
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
