package certificate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// The names are the names in config/default. RBAC cannot limit create to a name.
// +kubebuilder:rbac:groups="",namespace=system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=system,resources=secrets,resourceNames=app-operator-webhook-cert,verbs=list;watch;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=app-operator-validating-webhook-configuration,verbs=list;watch;patch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=app-operator-mutating-webhook-configuration,verbs=list;watch;patch

// SetupWithManager adds the keeper to the manager, on every replica and with a cache of its own, because the manager's cache has no
// Secrets.
func (k *Keeper) SetupWithManager(mgr ctrl.Manager) error {
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	secret := named(k.opts.Secret.Name)
	secret.Namespaces = map[string]cache.Config{k.opts.Secret.Namespace: {}}
	own, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: secret,
			&admissionregistrationv1.ValidatingWebhookConfiguration{}: named(k.opts.Validating),
			&admissionregistrationv1.MutatingWebhookConfiguration{}:   named(k.opts.Mutating),
		},
	})
	if err != nil {
		return fmt.Errorf("create the certificate cache: %w", err)
	}
	k.reader = own
	if k.writer, err = client.New(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	}); err != nil {
		return fmt.Errorf("create the certificate client: %w", err)
	}
	if err := mgr.Add(everywhere{own}); err != nil {
		return err
	}
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request { return k.secretRequest() })
	return ctrl.NewControllerManagedBy(mgr).
		Named("certificate").
		WithOptions(controller.Options{NeedLeaderElection: ptr.To(false)}).
		WatchesRawSource(source.Kind[client.Object](own, &corev1.Secret{}, one)).
		WatchesRawSource(source.Kind[client.Object](own, &admissionregistrationv1.ValidatingWebhookConfiguration{}, one)).
		WatchesRawSource(source.Kind[client.Object](own, &admissionregistrationv1.MutatingWebhookConfiguration{}, one)).
		// Where there is none of them there is no event either.
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			for _, request := range k.secretRequest() {
				queue.Add(request)
			}
			return nil
		})).
		Complete(k)
}

// everywhere is a cache that runs on every replica, elected or not.
type everywhere struct{ cache.Cache }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

func (k *Keeper) secretRequest() []ctrl.Request {
	return []ctrl.Request{{NamespacedName: k.opts.Secret}}
}

// injectBundles has the webhook configurations trust authorities, unless they do so.
func (k *Keeper) injectBundles(ctx context.Context, authorities []byte) error {
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	err := k.reader.Get(ctx, client.ObjectKey{Name: k.opts.Validating}, &validating)
	trusted := make([][]byte, len(validating.Webhooks))
	for i := range validating.Webhooks {
		trusted[i] = validating.Webhooks[i].ClientConfig.CABundle
	}
	if err := k.patchBundles(ctx, &validating, err, trusted, authorities); err != nil {
		return err
	}
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	err = k.reader.Get(ctx, client.ObjectKey{Name: k.opts.Mutating}, &mutating)
	trusted = make([][]byte, len(mutating.Webhooks))
	for i := range mutating.Webhooks {
		trusted[i] = mutating.Webhooks[i].ClientConfig.CABundle
	}
	return k.patchBundles(ctx, &mutating, err, trusted, authorities)
}

// patchBundles writes authorities into a webhook configuration; trusted are the current ones, one for each webhook, and err is the error of
// the read. A missing configuration is not created: it was removed on purpose.
func (k *Keeper) patchBundles(ctx context.Context, config client.Object, err error, trusted [][]byte, authorities []byte) error {
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	// The paths of the patch have the index of a webhook, so the patch is for this resource version only.
	patch := []operation{{"replace", "/metadata/resourceVersion", config.GetResourceVersion()}}
	for i, now := range trusted {
		if !bytes.Equal(now, authorities) {
			patch = append(patch, operation{"add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), authorities})
		}
	}
	if len(patch) == 1 {
		return nil
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	if err := k.writer.Patch(ctx, config, client.RawPatch(types.JSONPatchType, data)); err != nil {
		return fmt.Errorf("set the CA bundle of %s: %w", config.GetName(), err)
	}
	return nil
}
