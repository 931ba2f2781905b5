package webhooks

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"huolala.cn/app-operator/resource"
)

// TestEnabled has each setting of ENABLE_WEBHOOKS, with and without a way to a certificate.
func TestEnabled(t *testing.T) {
	own, mounted := Options{OwnNamespace: "system"}, Options{CertDir: "/certs"}
	for _, c := range []struct {
		opts         Options
		setting      string
		enabled      bool
		keeps, wrong string
	}{
		{own, "", false, "", ""},
		{own, "true", true, "makes it", ""},
		{own, "false", false, "", ""},
		{mounted, "", false, "", ""},
		{mounted, "1", true, "", ""},
		{Options{}, "", false, "", ""},
		{Options{}, "false", false, "", ""},
		{Options{}, "true", false, "", "set POD_NAMESPACE"},
		{own, "maybe", false, "", "ENABLE_WEBHOOKS must be true or false"},
	} {
		w, err := New(c.opts, c.setting)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%+v with %q: %v, want %q", c.opts, c.setting, err, c.wrong)
			}
			continue
		}
		if err != nil || w.enabled != c.enabled || (w.keeper != nil) != (c.keeps != "") {
			t.Errorf("%+v with %q: %+v, %v", c.opts, c.setting, w, err)
		}
	}
}

// paths is a server that notes for which paths it was to answer.
type paths struct {
	webhook.Server
	registered []string
}

func (p *paths) Register(path string, _ http.Handler) { p.registered = append(p.registered, path) }

// TestEachWebhookIsServed compares the paths that the API server is told to call with those that are answered, and with the kinds: a
// path that nobody answers would go unnoticed, as the API server then stores what it is sent.
func TestEachWebhookIsServed(t *testing.T) {
	data, err := os.ReadFile("../config/webhook/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var called []string
	for _, match := range regexp.MustCompile(`(?m)^ *path: (\S+)$`).FindAllStringSubmatch(string(data), -1) {
		called = append(called, match[1])
	}
	server := &paths{}
	(&validators{}).registerKinds(server)
	slices.Sort(called)
	slices.Sort(server.registered)
	if diff := cmp.Diff(called, server.registered); diff != "" {
		t.Errorf("paths (-called +answered):\n%s", diff)
	}
	for _, k := range resource.Kinds {
		if path := "/validate-app-huolala-cn-v1-" + strings.ToLower(k.Name); !slices.Contains(called, path) {
			t.Errorf("nobody validates a %s: there is no path %s", k.Name, path)
		}
	}
}
