package ui

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	plugin "huolala.cn/app-operator/plugin/cli"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

const (
	// maxRows is how many rows a page has at most, chunk how many objects an answer of the API server.
	maxRows, chunk = 200, 500
	// maxRequests is how many requests the page of a resource takes at most until it is followed: it is read, its rights are
	// asked for, and what has happened since is read once its watches have begun.
	maxRequests = 9 + 1 + 9
	// changes is how many changes are timed, maxDelay how many milliseconds one may take until it is on the screen, maxRate how many bytes a
	// second a tab gets during a rollout of so many Apps.
	changes, maxDelay, maxRate, rollout = 20, 500, 50 << 10, 100
	// maxMemory is what the application centre may have had at a time with 5,000 Apps and 10,000 pods, maxViewerMemory the same for a viewer with
	// so many readers, who open so many Apps.
	maxMemory, maxViewerMemory, readers, opened = 110 << 20, 90 << 20, 50, 10
	// idle is for how long nothing happens while the requests of an open page are counted, pulse how often the page asks for a sign of life of
	// the API server at most.
	idle, pulse = 10 * time.Second, 5 * time.Second
)

// BenchmarkUI measures the application centre: how long a page takes until it is on the screen, how large it is, what it asks the API
// server for, and how much memory it takes.
func BenchmarkUI(b *testing.B) {
	first := measure(b, 1000, 0)
	second := measure(b, 5000, 10000)
	if second.bytes > first.bytes*11/10 {
		b.Errorf("the list has %d bytes with 1,000 Apps, and %d with 5,000", first.bytes, second.bytes)
	}
	b.ReportMetric(first.shown, "ms/1000-Apps-on-screen")
	b.ReportMetric(second.shown, "ms/5000-Apps-on-screen")
	b.ReportMetric(float64(first.bytes)/1024, "KiB/list")
	b.ReportMetric(float64(first.lists), "requests/list-of-1000")
	b.ReportMetric(float64(second.lists), "requests/list-of-5000")
	b.ReportMetric(float64(second.gets), "requests/resource")
	b.ReportMetric(float64(second.idle), "requests/idle")
	b.ReportMetric(float64(second.memory)/(1<<20), "MiB/peak")
	b.ReportMetric(float64(second.viewer)/(1<<20), "MiB/peak-of-viewer")
	b.ReportMetric(float64(second.viewed), "requests/viewer")
	b.ReportMetric(second.delay, "ms/change-on-screen")
	b.ReportMetric(rolloutRate(b)/1024, "KiB/s-in-rollout")
	b.ReportMetric(0, "ns/op")
}

// figures are what is measured with so many Apps.
type figures struct {
	// shown is how many milliseconds the list takes, from the click until all of it is on the screen.
	shown float64
	// bytes is the size of the list, memory the most that the process has had, viewer the same of a viewer, and viewed its requests.
	bytes, memory, viewer, viewed int
	// lists and gets are the requests of the list and of the page of a resource, idle those of a page that is open.
	lists, gets, idle int
	// delay is how many milliseconds a change takes until it is on the screen, the median of all.
	delay float64
}

// measure opens the list of so many Apps, next to so many pods, and the page of one.
func measure(b *testing.B, apps, pods int) figures {
	b.Helper()
	need(b)
	ns := plane.Namespace(b)
	fill(b, apps, func(i int) client.Object { return fixture.NewApp(ns, fmt.Sprintf("app-%05d", i)) })
	fill(b, pods, func(i int) client.Object { return pendingPod(ns, i) })
	plane.Bind(b, ns, "user", readingRights(), ns)
	proxy := plane.ProxyAs(b, types.NamespacedName{Namespace: ns, Name: "user"}, nil)
	c, t := open(b, harness.WriteKubeconfig(b, proxy.Config()), "-n", ns), newTab(b)
	t.login(c)
	t.until(fmt.Sprintf("%d more", apps-maxRows))

	f := figures{shown: math.Inf(1)}
	for range 3 {
		proxy.Requests.Reset()
		t.visit(c.base, http.StatusOK)
		f.shown = min(f.shown, value[float64](t, `performance.getEntriesByType("navigation")[0].loadEventEnd`))
		f.lists = sent(proxy)
	}
	f.bytes = value[int](t, `performance.getEntriesByType("navigation")[0].encodedBodySize`)
	if rows := value[int](t, `document.querySelectorAll("#rows a").length`); rows != maxRows {
		b.Errorf("%d rows with %d Apps, want %d", rows, apps, maxRows)
	}
	if most := 4 + apps/chunk; f.lists > most {
		b.Errorf("%d requests for the list of %d Apps, want at most %d", f.lists, apps, most)
	}
	t.live()
	f.delay = changeDelay(b, t, ns)
	proxy.Requests.Reset()
	<-time.After(idle) // Nothing is to come: there is no state to wait for.
	f.idle = sent(proxy)
	if signs := pulses(proxy); signs > int(idle/pulse)+1 {
		b.Errorf("%d signs of life within %s, want one in %s", signs, idle, pulse)
	}
	if f.idle > 0 {
		b.Errorf("%d requests while nothing happens: %v", f.idle, proxy.Requests.All())
	}
	proxy.Requests.Reset()
	t.visit(c.base+"app/"+ns+"/app-00000", http.StatusOK)
	t.live()
	if f.gets = sent(proxy); f.gets > maxRequests {
		b.Errorf("%d requests for the page of an App, want at most %d: %v", f.gets, maxRequests, proxy.Requests.All())
	}
	if f.memory = peakMemory(b, c.process); f.memory > maxMemory {
		b.Errorf("%d MiB with %d Apps and %d pods, want at most %d", f.memory>>20, apps, pods, maxMemory>>20)
	}
	proxy.Requests.Reset()
	f.viewer, f.viewed = measureViewer(b, proxy, ns)
	return f
}

// measureViewer has many readers open the list, the page of an App and their streams in a viewer at once, and returns the most memory that it has had,
// and its requests.
func measureViewer(b *testing.B, proxy *harness.Proxy, ns string) (memory, requests int) {
	b.Helper()
	v := openViewer(b, harness.WriteKubeconfig(b, proxy.Config()), "-n", ns)
	var group errgroup.Group
	for i := range readers {
		group.Go(func() error {
			app := fmt.Sprintf("app/%s/app-%05d", ns, i%opened)
			for path, until := range map[string]string{"": "more: use the filter", app: "All objects as a tree", "events": "event: order", app + "/events": `"id":"spec"`} {
				if err := v.read(b.Context(), path, until); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Error(err)
	}
	memory, requests = peakMemory(b, v.process), sent(proxy)
	b.Logf("a viewer with %d readers: %d MiB, %d requests", readers, memory>>20, requests)
	if memory > maxViewerMemory {
		b.Errorf("%d MiB of a viewer with %d readers, want at most %d", memory>>20, readers, maxViewerMemory>>20)
	}
	if most := 2 * opened * maxRequests; requests > most {
		b.Errorf("%d requests of a viewer with %d readers, want at most %d: %v", requests, readers, most, proxy.Requests.Counts())
	}
	return memory, requests
}

// changeDelay changes the status of an App that is on the screen again and again, and returns the median of the times until it was shown.
func changeDelay(b *testing.B, t *tab, ns string) (milliseconds float64) {
	b.Helper()
	var all []float64
	app := fixture.NewApp(ns, "app-00000")
	plane.Read(b, app)
	for i := range changes {
		ready := fmt.Sprintf("%d/1000", i)
		value[bool](t, fmt.Sprintf(`(() => {
			globalThis.shown = new Promise(resolve => new MutationObserver((_, observer) => {
				if (!document.getElementById("rows").innerText.includes(%q)) return;
				observer.disconnect();
				requestAnimationFrame(() => resolve(performance.timeOrigin + performance.now()));
			}).observe(document.getElementById("rows"), {subtree: true, childList: true, characterData: true}));
			return true;
		})()`, ready))
		began := time.Now()
		plane.ChangeStatus(b, app, func() { app.Status.Ready = ready })
		all = append(all, value[float64](t, "globalThis.shown")-float64(began.UnixMicro())/1000)
	}
	slices.Sort(all)
	milliseconds = all[len(all)/2]
	if milliseconds > maxDelay {
		b.Errorf("a change is on the screen after %.0f ms, want at most %d", milliseconds, maxDelay)
	}
	return milliseconds
}

// rolloutRate has the images of many Apps changed at once, and returns how many bytes a second the stream of the list has until all are ready.
func rolloutRate(b *testing.B) (bytesPerSecond float64) {
	b.Helper()
	config, ns := administrator(b)
	fill(b, rollout, func(i int) client.Object { return fixture.NewApp(ns, fmt.Sprintf("app-%03d", i)) })
	c := open(b, config, "-n", ns)
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	browser := http.Client{Jar: jar}
	answer, err := browser.PostForm(c.base+"login", url.Values{"code": {c.code()}})
	if err != nil {
		b.Fatal(err)
	}
	_ = answer.Body.Close()
	stands := func(image string) {
		b.Helper()
		harness.Eventually(b, func() error {
			var apps appv1.AppList
			if err := plane.Client.List(b.Context(), &apps, client.InNamespace(ns)); err != nil {
				return err
			}
			for i := range apps.Items {
				if err := standing(&apps.Items[i], appv1.ReasonReady); err != nil || apps.Items[i].Spec.Image != image {
					return fmt.Errorf("%s: %w", apps.Items[i].Name, errors.Join(err, errors.New("not ready with "+image)))
				}
			}
			return nil
		})
	}
	stands(fixture.Image)
	stream, err := browser.Get(c.base + "events") //nolint:noctx // It ends below.
	if err != nil {
		b.Fatal(err)
	}
	var got atomic.Int64
	go func() {
		for piece := make([]byte, 32<<10); ; {
			n, err := stream.Body.Read(piece)
			if got.Add(int64(n)); err != nil {
				return
			}
		}
	}()
	harness.Eventually(b, func() error {
		if got.Load() < rollout*100 {
			return errors.New("the stream has not begun")
		}
		return nil
	})
	before, began := got.Load(), time.Now()
	for i := range rollout {
		app := fixture.NewApp(ns, fmt.Sprintf("app-%03d", i))
		plane.Read(b, app)
		plane.Change(b, app, func() { app.Spec.Image = fixture.Image + "-2" })
	}
	stands(fixture.Image + "-2")
	bytesPerSecond = float64(got.Load()-before) / time.Since(began).Seconds()
	_ = stream.Body.Close()
	if bytesPerSecond > maxRate || got.Load() == before {
		b.Errorf("%.0f bytes a second during a rollout of %d Apps, want at most %d, and some", bytesPerSecond, rollout, maxRate)
	}
	return bytesPerSecond
}

// sent returns how many requests were sent, watches and signs of life aside.
func sent(proxy *harness.Proxy) int {
	return count(proxy, func(q harness.Request) bool { return q.Verb != "watch" && q.Path != pathPulse })
}

// pathPulse is the path of a request for a sign of life: the version of the API server.
const pathPulse = "/version"

// pulses returns how many requests for a sign of life were sent.
func pulses(proxy *harness.Proxy) int {
	return count(proxy, func(q harness.Request) bool { return q.Path == pathPulse })
}

// count returns how many requests of a kind were sent.
func count(proxy *harness.Proxy, kind func(harness.Request) bool) int {
	n := 0
	for _, q := range proxy.Requests.All() {
		if kind(q) {
			n++
		}
	}
	return n
}

// fill creates objects, many at once.
func fill(b *testing.B, n int, build func(i int) client.Object) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return plane.Client.Create(b.Context(), build(i)) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// pendingPod returns a pod as one of an App, which no scheduler looks at.
func pendingPod(ns string, i int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: fixture.Meta(ns, fmt.Sprintf("app-%05d-%d", i/2, i%2))}
	pod.Labels = map[string]string{"app.kubernetes.io/managed-by": "app-operator", "app": fmt.Sprintf("app-%05d", i/2)}
	pod.Spec.SchedulerName = "none"
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: fixture.Image}}
	return pod
}

// readingRights returns what the pages take.
func readingRights() []harness.Right {
	rights := map[harness.Right]bool{}
	for _, n := range plugin.CommandNeeds() {
		if n.Command == "ui" {
			for _, right := range n.Rights {
				rights[harness.Right{Group: right.Group, Resource: right.Resource, Verb: right.Verb}] = true
			}
		}
	}
	var all []harness.Right
	for right := range maps.Keys(rights) {
		all = append(all, right)
	}
	return all
}

// peakMemory returns the most memory, in bytes, that a process has had at a time.
func peakMemory(b *testing.B, process int) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
	_, rest, found := strings.Cut(string(text), "VmHWM:")
	var kilobytes int
	if found {
		_, err = fmt.Sscan(rest, &kilobytes)
	} else {
		err = errors.Join(err, errors.New("there is no VmHWM"))
	}
	if err != nil {
		b.Fatalf("the memory of the application centre: %v", err)
	}
	return kilobytes << 10
}
