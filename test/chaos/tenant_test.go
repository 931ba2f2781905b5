package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestHostileTenant has a tenant create nasty objects in a namespace of theirs, by every way that the API server leaves open
// without a webhook, while another tenant creates Apps. The others are served as before, and the manager stays within the
// memory that config/manager gives it.
func TestHostileTenant(t *testing.T) {
	t.Parallel()
	hostileNamespace, other := plane.Namespace(t), plane.Namespace(t)
	x := plane.Proxy(t, nil)
	process := harness.SpawnWith(t, []string{"GOGC=40", "GOMEMLIMIT=450MiB"}, program, x.Config(), hostileNamespace+","+other)
	process.Ready(t)
	serve := func(phase string, apps int) time.Duration {
		var took []time.Duration
		for i := range apps {
			app := newApp(objectMeta(other, fmt.Sprintf("%s-%d", phase, i))).(*appv1.App)
			began := time.Now()
			plane.Create(t, app)
			plane.Until(t, app, func() error { return (&script{controlled: true}).settled(app) })
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	before := serve("before", of(3, 10))

	tenant := newNastyTenant(t, hostileNamespace)
	posted := make(chan map[string]int)
	go func() { posted <- tenant.post(of(100, 1000)) }()
	during := serve("during", of(3, 10))
	stored := <-posted
	after := serve("after", of(3, 10))
	if stored["stored"] == 0 {
		t.Errorf("the API server stored none of the objects: %v", stored)
	}
	peak := process.PeakMemory(t)
	if limit := managerMemoryLimit(t); peak > limit {
		t.Errorf("the manager used %d MiB, and its limit is %d MiB", peak>>20, limit>>20)
	}
	results.add(t, "hostile tenant", of(100, 1000), []time.Duration{during},
		"%d stored; an App of another namespace is ready after %.2f × the time of before meanwhile, %.2f × afterwards; %d MiB",
		stored["stored"], during.Seconds()/before.Seconds(), after.Seconds()/before.Seconds(), peak>>20)
}

// managerMemoryLimit is what config/manager lets the manager use.
func managerMemoryLimit(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "config", "manager", "manager.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`limits:[\s\S]*?memory: (\S+)`).FindSubmatch(text)
	if found == nil {
		t.Fatal("config/manager states no memory limit")
	}
	limit := resource.MustParse(string(found[1]))
	return limit.Value()
}

// nastyTenant posts objects straight to the API server.
type nastyTenant struct {
	t         *testing.T
	client    *http.Client
	namespace string
	chance    *rand.Rand
}

func newNastyTenant(t *testing.T, namespace string) *nastyTenant {
	t.Helper()
	client, err := rest.HTTPClientFor(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &nastyTenant{t, client, namespace, chance(7)}
}

// post creates n objects and counts what came of them.
func (n *nastyTenant) post(count int) map[string]int {
	outcome := map[string]int{}
	for i := range count {
		body, kind := n.object(i)
		url := fmt.Sprintf("%s/apis/%s/namespaces/%s/apps", plane.Config.Host, appv1.GroupVersion, n.namespace)
		if !strings.HasPrefix(url, "http") {
			url = "https://" + url
		}
		resp, err := n.client.Post(url, kind, bytes.NewReader(body))
		if err != nil {
			outcome["no answer"]++
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body) // What it says does not matter here.
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusCreated {
			outcome["stored"]++
		} else {
			outcome["refused"]++
		}
	}
	return outcome
}

// object returns the i-th object, and its media type.
func (n *nastyTenant) object(i int) (body []byte, mediaType string) {
	spec := map[string]any{"image": "nginx:1.25"}
	meta := map[string]any{"name": fmt.Sprintf("nasty-%d", i)}
	if i%10 == 9 {
		return n.anchors(i), "application/yaml"
	}
	for range 1 + n.chance.IntN(3) {
		nasties[n.chance.IntN(len(nasties))](n, meta, spec)
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": appv1.GroupVersion.String(), "kind": "App", "metadata": meta, "spec": spec,
	})
	if err != nil {
		n.t.Error(err)
	}
	return body, "application/json"
}

// anchors is a YAML text whose aliases grow with each level, and one that refers to itself.
func (n *nastyTenant) anchors(i int) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: %s\nkind: App\nmetadata: {name: nasty-%d}\nspec:\n  image: nginx:1.25\n  podTemplatePatch:\n", appv1.GroupVersion, i)
	levels := 2 + n.chance.IntN(8)
	text.WriteString("    a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for level := 1; level < levels; level++ {
		fmt.Fprintf(&text, "    a%d: &a%d [%s]\n", level, level, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", level-1), 9), ", "))
	}
	if n.chance.IntN(4) == 0 {
		text.WriteString("    self: &self {spec: *self}\n")
	}
	return []byte(text.String())
}

// nasties make an object nasty, each in its way.
var nasties = []func(n *nastyTenant, meta, spec map[string]any){
	// Deep.
	func(n *nastyTenant, _, spec map[string]any) {
		var deep any = "x"
		for range 1 + n.chance.IntN(2000) {
			deep = map[string]any{"spec": deep}
		}
		spec["podTemplatePatch"] = deep
		if _, ok := deep.(map[string]any); !ok {
			spec["podTemplatePatch"] = map[string]any{}
		}
	},
	// Wide.
	func(n *nastyTenant, _, spec map[string]any) {
		containers := make([]any, 1+n.chance.IntN(15_000))
		for i := range containers {
			containers[i] = map[string]any{"name": fmt.Sprintf("c%d", i), "image": "a"}
		}
		spec["podTemplatePatch"] = map[string]any{"spec": map[string]any{"containers": containers}}
	},
	func(n *nastyTenant, _, spec map[string]any) {
		list := make([]any, 1+n.chance.IntN(20_000))
		for i := range list {
			list[i] = map[string]any{"name": fmt.Sprintf("E%d", i), "value": "$(E0)"}
		}
		spec[[]string{"envs", "volumes", "tolerations"}[n.chance.IntN(3)]] = list
	},
	// Huge.
	func(n *nastyTenant, _, spec map[string]any) {
		spec["args"] = []any{strings.Repeat("x", 1+n.chance.IntN(900_000))}
	},
	func(n *nastyTenant, meta, _ map[string]any) {
		meta["annotations"] = map[string]any{"example.com/huge": strings.Repeat("y", 1+n.chance.IntN(250_000))}
	},
	// Unicode.
	func(n *nastyTenant, meta, spec map[string]any) {
		odd := []string{"\u0000", "\u202e", "\ufeff", "\U0001F4A9", "a\u0300\u0301\u0302", "\u2028", "\x7f", "界"}
		text := strings.Repeat(odd[n.chance.IntN(len(odd))], 1+n.chance.IntN(200))
		spec["envs"] = []any{map[string]any{"name": "ODD", "value": text}}
		spec["podAnnotations"] = map[string]any{"example.com/odd": text}
		meta["annotations"] = map[string]any{appv1.AnnotationRefresh: text}
	},
	// Overlong.
	func(n *nastyTenant, _, spec map[string]any) {
		long := strings.Repeat("a", 1+n.chance.IntN(400))
		field := []string{"serviceAccountName", "priorityClassName", "runtimeClassName", "image"}[n.chance.IntN(4)]
		spec[field] = long
		spec["podLabels"] = map[string]any{"example.com/" + long: long}
	},
	// Numbers at every limit.
	func(n *nastyTenant, _, spec map[string]any) {
		field := []string{"replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds", "terminationGracePeriodSeconds", "rollingUpdate"}
		spec[field[n.chance.IntN(len(field))]] = n.number()
	},
	func(n *nastyTenant, _, spec map[string]any) {
		spec["probes"] = map[string]any{"readiness": map[string]any{"httpGet": map[string]any{"port": n.number()}, "periodSeconds": n.number()}}
	},
	// Quantities.
	func(n *nastyTenant, _, spec map[string]any) {
		name := []string{"cpu", "memory", "ephemeral-storage", "example.com/gpu"}[n.chance.IntN(4)]
		spec["resources"] = map[string]any{"limits": map[string]any{name: n.quantity()}, "requests": map[string]any{name: n.quantity()}}
	},
	func(n *nastyTenant, _, spec map[string]any) {
		spec["podTemplatePatch"] = map[string]any{"spec": map[string]any{
			"volumes":    []any{map[string]any{"name": "v", "emptyDir": map[string]any{"sizeLimit": n.quantity()}}},
			"containers": []any{map[string]any{"name": "side", "image": "a", "resources": map[string]any{"limits": map[string]any{"x.y/z": n.quantity()}}}},
			"overhead":   map[string]any{"cpu": n.quantity()},
		}}
	},
	func(n *nastyTenant, _, spec map[string]any) {
		spec["volumes"] = []any{map[string]any{"name": "v", "emptyDir": map[string]any{"sizeLimit": n.quantity()}}}
	},
}

// number returns one at, or beyond, the limit of some type.
func (n *nastyTenant) number() any {
	limits := []any{
		0, -1, 1, math.MaxInt32, math.MinInt32, int64(math.MaxInt32) + 1, int64(math.MinInt32) - 1, int64(99999999999),
		int64(math.MaxInt64), int64(math.MinInt64), json.Number("9223372036854775808"), json.Number("1e308"), json.Number("-1e308"),
		0.5, json.Number("1e-300"), "99999999999", "1e9", "-1", "",
	}
	return limits[n.chance.IntN(len(limits))]
}

// quantity returns one that is hard to parse, or none at all.
func (n *nastyTenant) quantity() any {
	limits := []any{
		"1e1.5", "1e-100000000", "1e-30000000", "1e100000000", "1E+2147483648", strings.Repeat("9", 1000), "0." + strings.Repeat("0", 1000) + "1",
		"-1", "1Ei", "9e18", "1e-9", "1n", "+.5", "", "١", json.Number("1e-300"), 99999999999, "100000000000000000000Ei",
	}
	return limits[n.chance.IntN(len(limits))]
}
