// Program consumer applies the App "cart" in the namespace "shop" with an image, and waits until the App is ready.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	applyv1 "huolala.cn/app-operator/api/client/applyconfiguration/api/v1"
	"huolala.cn/app-operator/api/client/clientset/versioned"
	informers "huolala.cn/app-operator/api/client/informers/externalversions"
	listers "huolala.cn/app-operator/api/client/listers/api/v1"
	appv1 "huolala.cn/app-operator/api/v1"
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, image string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	spec := applyv1.AppSpec().WithImage(image).WithReplicas(2).
		WithPorts(applyv1.Port().WithPort(80).WithTargetPort(intstr.FromInt32(8080)))
	applied, err := client.AppV1().Apps("shop").
		Apply(ctx, applyv1.App("cart", "shop").WithSpec(spec), metav1.ApplyOptions{FieldManager: "consumer"})
	if err != nil {
		return err // A conflict names the fields that another manager has set.
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("shop"))
	lister := factory.App().V1().Apps().Lister().Apps("shop")
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	return wait.PollUntilContextTimeout(ctx, time.Second, 5*time.Minute, true, func(context.Context) (bool, error) {
		return isReady(lister, applied.Generation)
	})
}

// isReady reports whether the App is ready with a generation.
func isReady(lister listers.AppNamespaceLister, generation int64) (bool, error) {
	app, err := lister.Get("cart")
	if apierrors.IsNotFound(err) {
		return false, nil // The cache may be behind the answer to Apply.
	}
	if err != nil {
		return false, err
	}
	return app.Status.ObservedGeneration >= generation &&
		meta.IsStatusConditionTrue(app.Status.Conditions, appv1.ConditionReady), nil
}
