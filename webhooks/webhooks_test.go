package webhooks

import (
	"strings"
	"testing"
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
