// Package ui tests the application centre with a browser, on a whole control plane with the manager in it. It is a module of its own,
// so that the operator's does not have the browser's protocol in it.
package ui

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"huolala.cn/app-operator/test/harness"
)

var (
	// plane is the control plane that all tests share; each has a namespace of its own.
	plane *harness.Plane
	// program is the kubectl plug-in.
	program string
	// browser is the context of the browser, whose tabs the tests open.
	browser context.Context
	// missing is why the tests cannot run on this machine.
	missing string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctrl.SetLogger(logr.Discard())
	chromium := findChromium()
	if chromium == "" {
		missing = "there is no Chromium: install Debian's package chromium, or name the program with CHROMIUM, as make test-ui does"
		if os.Getenv("CI") == "true" {
			fmt.Fprintln(os.Stderr, missing)
			return 1
		}
		return m.Run()
	}
	stop, err := start(chromium)
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// findChromium returns the path of the browser that CHROMIUM names, empty if there is none. The Makefile finds it: a search here would not
// make Go run the tests again once a browser is installed.
func findChromium() string {
	path, err := exec.LookPath(os.Getenv("CHROMIUM"))
	if err != nil {
		return ""
	}
	return path
}

// start starts what all tests share. What it returns ends all of it, however much has started.
func start(chromium string) (stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var errs []error
		for i := len(stops) - 1; i >= 0; i-- {
			errs = append(errs, stops[i]())
		}
		return errors.Join(errs...)
	}
	scratch, err := os.MkdirTemp("", "ui-")
	if err != nil {
		return stop, err
	}
	stops = append(stops, func() error { return os.RemoveAll(scratch) })
	if err := flag.Set("test.parallel", "6"); err != nil {
		return stop, err
	}
	program = filepath.Join(scratch, "kubectl-happ")
	if err := harness.BuildProgram(program, "", "./cmd/kubectl-happ"); err != nil {
		return stop, err
	}
	if plane, err = harness.StartCluster("ui", 3); err != nil {
		return stop, err
	}
	stops = append(stops, plane.Stop)
	allocator, end := chromedp.NewExecAllocator(context.Background(), options(chromium, scratch)...)
	stops = append(stops, func() error { end(); return nil })
	tabs, _ := chromedp.NewContext(allocator)
	browser = tabs
	stops = append(stops, func() error { return chromedp.Cancel(tabs) })
	if err := chromedp.Do(tabs); err != nil {
		return stop, fmt.Errorf("start %s: %w", chromium, err)
	}
	return stop, nil
}

// options start a browser that listens to nothing but a pipe, and asks no other host for anything. It has no sandbox, which root in a
// container cannot set up: all pages are those of the tests.
func options(chromium, folder string) []chromedp.ExecAllocatorOption {
	return append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(filepath.Join(folder, "profile")), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-quic", true), chromedp.WindowSize(1280, 800))
}

// need skips the test on a machine without a browser.
func need(t testing.TB) {
	t.Helper()
	if missing != "" {
		t.Skip(missing)
	}
}
