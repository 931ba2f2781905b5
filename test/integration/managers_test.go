package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/harness"
)

// startGuarded starts a manager that serves the webhooks for a namespace, and waits until the API server asks them.
func startGuarded(t testing.TB, ns string, options ...harness.Option) *harness.Manager {
	t.Helper()
	m := plane.Start(t, ns, append(options, harness.WithWebhooks(plane.Webhooks(t, ns)))...)
	awaitWebhooks(t, ns)
	return m
}

// awaitWebhooks waits until the API server asks the webhooks of both kinds for a namespace.
func awaitWebhooks(t testing.TB, ns string) {
	t.Helper()
	harness.Eventually(t, func() error {
		box := &appv1.ModelBox{}
		box.Namespace, box.Name, box.Spec.Image = ns, "probe", "a:1"
		if err := plane.Client.Create(t.Context(), box, client.DryRunAll); err != nil {
			return err
		}
		if box.Spec.Name == "" {
			return errors.New("the mutating webhook is not asked")
		}
		return checkTurnedAway(plane.Client.Create(t.Context(), invalidApp(ns, "probe"), client.DryRunAll), "vapp.app.huolala.cn")
	})
}

// checkTurnedAway checks that an error is that of a validating webhook, with its words.
func checkTurnedAway(err error, words ...string) error {
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "admission webhook ") {
		return errors.Join(errors.New("not refused by a webhook"), err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			return fmt.Errorf("the refusal does not say %q: %w", word, err)
		}
	}
	return nil
}

// user is a client that notes the warnings it gets.
type user struct {
	client.Client
	mu            sync.Mutex
	said, planned []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (u *user) HandleWarningHeader(_ int, _ string, text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if line, ok := strings.CutPrefix(text, "plan: "); ok {
		u.planned = append(u.planned, line)
		return
	}
	u.said = append(u.said, text)
}

// plan returns the lines of plans since the last call.
func (u *user) plan() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	planned := u.planned
	u.planned = nil
	return planned
}

// warnings returns those since the last call, but for plans.
func (u *user) warnings() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	said := u.said
	u.said = nil
	return said
}

// newUser returns an administrator.
func newUser(t testing.TB) *user {
	t.Helper()
	u := &user{}
	cfg := rest.CopyConfig(plane.Config)
	cfg.WarningHandler = u
	var err error
	if u.Client, err = client.New(cfg, client.Options{Scheme: harness.Scheme()}); err != nil {
		t.Fatal(err)
	}
	return u
}

// awaitClosed waits until a channel is closed.
func awaitClosed(t *testing.T, closed <-chan struct{}) {
	t.Helper()
	select {
	case <-closed:
	case <-time.After(harness.Patience):
		t.Fatalf("nothing within %s", harness.Patience)
	}
}

// awaitProbe waits until a probe answers with a status.
func awaitProbe(t *testing.T, address, probe string, want int) {
	t.Helper()
	harness.Eventually(t, func() error {
		resp, err := http.Get("http://" + address + "/" + probe)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
		if resp.StatusCode != want {
			return fmt.Errorf("%s answers %d, want %d", probe, resp.StatusCode, want)
		}
		return nil
	})
}

// older runs a manager as one of a release whose newest rendering is the tutorials'. It differs from the latest in the pods' labels.
var older = harness.WithRendering(resource.RenderingTutorial)

// withoutStreams makes the API server one that does not know of watches which begin with all that there is.
func withoutStreams(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
	if q.Streams {
		return harness.Answer(apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)), nil
	}
	return send()
}
