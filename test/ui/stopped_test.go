package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// childOnPort returns the process that this one has started and that has a port in its arguments.
func childOnPort(t *testing.T, program, port string) int {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range processes {
		words, _ := os.ReadFile(path)
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		ours := strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid()))
		if arguments := strings.Split(string(words), "\x00"); ours && filepath.Base(arguments[0]) == program && strings.Contains(string(words), "="+port) {
			id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
	}
	t.Fatalf("there is no %s on port %s", program, port)
	return 0
}

// TestLiveStopped stops an API server of its own, whose connections stay open, as after a lost network. Pages are live only while it
// answers: those that are open say since when it does not, a new one is never live, and all go on when it does again.
func TestLiveStopped(t *testing.T) {
	t.Parallel()
	need(t)
	other, err := harness.StartAPIServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Stop(); err != nil {
			t.Error(err)
		}
	})
	at, err := url.Parse(other.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	server := childOnPort(t, "kube-apiserver", at.Port())
	cart := fixture.NewApp(metav1.NamespaceDefault, "cart")
	other.Create(t, cart)
	list, c := newTab(t), open(t, harness.WriteKubeconfig(t, other.Config))
	list.login(c)
	list.live()
	resource := list.another(t)
	resource.visit(c.base+"app/default/cart", http.StatusOK)
	resource.live()
	if err := syscall.Kill(server, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goOn := func() { _ = syscall.Kill(server, syscall.SIGCONT) }
	t.Cleanup(goOn) // Before the server is stopped for good.
	list.without([]string{"● live"}, "○ not live", "No connection to the cluster since", "default/cart")
	resource.without([]string{"● live"}, "○ not live", "No connection to the cluster since")
	goOn()
	list.without([]string{"No connection"}, "● live", "default/cart")
	resource.without([]string{"No connection"}, "● live")
	other.Change(t, cart, func() { cart.Spec.Image = "nginx:changed" })
	resource.until("changed") // The version of the image.
}
