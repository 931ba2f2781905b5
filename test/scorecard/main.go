// The scorecard's stage of our own: the bundle's App, in a cluster that runs the operator. A pod of the scorecard runs it,
// with the bundle in /bundle, and reads its verdict from standard output.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	"github.com/operator-framework/api/pkg/manifests"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// patience is how long the App may take. The scorecard's own, --wait-time, must be longer.
const patience = 90 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run prints the verdict. A failed test is no error: the scorecard takes one for a test that could not be run.
func run() error {
	ctx, cancel := context.WithTimeout(ctrl.SetupSignalHandler(), patience)
	defer cancel()
	ctrl.SetLogger(logr.Discard()) // The scorecard reads all that is written.
	bundle := "/bundle"
	if len(os.Args) > 1 {
		bundle = os.Args[1]
	}
	result := v1alpha3.TestResult{Name: "app-is-ready", State: v1alpha3.PassState}
	if err := check(ctx, bundle, os.Getenv("SCORECARD_NAMESPACE")); err != nil {
		result.State, result.Errors = v1alpha3.FailState, []string{err.Error()}
	}
	return json.NewEncoder(os.Stdout).Encode(v1alpha3.TestStatus{Results: []v1alpha3.TestResult{result}})
}

// check makes the App of the bundle's examples, waits until it is Ready, and deletes it.
func check(ctx context.Context, bundle, namespace string) error {
	app, err := example(bundle)
	if err != nil {
		return err
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := appv1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("scheme: %w", err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	app.Namespace, app.Name, app.GenerateName = namespace, "", "scorecard-"
	if err := c.Create(ctx, app); err != nil {
		return err
	}
	err = ready(ctx, c, app)
	// Not ctx: it may have run out.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, standing(last, c, app))
	}
	return errors.Join(err, client.IgnoreNotFound(c.Delete(last, app)))
}

// example is the App of the bundle's alm-examples.
func example(bundle string) (*appv1.App, error) {
	b, err := manifests.GetBundleFromDir(bundle)
	if err != nil {
		return nil, err
	}
	var examples []json.RawMessage
	if err := json.Unmarshal([]byte(b.CSV.Annotations["alm-examples"]), &examples); err != nil {
		return nil, fmt.Errorf("alm-examples: %w", err)
	}
	for _, text := range examples {
		var app appv1.App
		if err := json.Unmarshal(text, &app); err == nil && app.Kind == "App" {
			return &app, nil
		}
	}
	return nil, errors.New("alm-examples has no App")
}

// ready waits until an App is Ready, for the spec that it has.
func ready(ctx context.Context, c client.Client, app *appv1.App) error {
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return false, err
		}
		return app.Status.ObservedGeneration == app.Generation &&
			meta.IsStatusConditionTrue(app.Status.Conditions, appv1.ConditionReady), nil
	})
}

// standing says how an App that is not Ready is doing.
func standing(ctx context.Context, c client.Client, app *appv1.App) string {
	if err := c.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
		return err.Error()
	}
	if is := meta.FindStatusCondition(app.Status.Conditions, appv1.ConditionReady); is != nil {
		return fmt.Sprintf("App %s is %s: %s", app.Name, is.Reason, is.Message)
	}
	return fmt.Sprintf("the operator has not looked at App %s: is it running?", app.Name)
}
