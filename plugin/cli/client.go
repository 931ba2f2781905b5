package cli

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"huolala.cn/app-operator/api/client/clientset/versioned"
	"huolala.cn/app-operator/api/client/clientset/versioned/scheme"
	"huolala.cn/app-operator/internal/answers"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/plugin/view"
	"huolala.cn/app-operator/resource"
)

// fieldManager is the name by which the plug-in writes. Flux removes what managers own whose names begin with "kubectl"
// (https://fluxcd.io/flux/faq/#why-are-kubectl-edits-rolled-back-by-flux), and with it a hold.
const fieldManager = "happ"

// clients are the user's ways to the API server.
type clients struct {
	app       versioned.Interface
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	config    *rest.Config
	namespace string
	chunk     int64
	// most is how many bytes are read of the objects below a resource, maxSnapshot for 0.
	most int64
	// isPage is true for a page, which has no address of the API server.
	isPage bool
}

// newClients returns the clients that the flags and the kubeconfig mean.
func (r *root) newClients() (*clients, error) {
	cfg, err := r.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	// A command is a handful of requests at once; API Priority and Fairness protects the API server.
	cfg.QPS, cfg.UserAgent = -1, "kubectl-happ/"+r.Version
	cfg.Wrap(answers.New().Wrap) // It counts what a Limit limits.
	cfg.WarningHandler = rest.NewWarningWriter(r.Err, rest.WarningWriterOptions{Deduplicate: true})
	namespace, _, err := r.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	app, err := versioned.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	other, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &clients{app: app, kube: kube, dynamic: other, config: cfg, namespace: namespace, chunk: r.chunk}, nil
}

// lister lists the objects of a type in a namespace.
type lister[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
}

// kindClient is the client of the custom resources of a kind in a namespace, whatever the kind is.
type kindClient struct {
	*gentype.ClientWithList[resource.Object, runtime.Object]
	chunk int64
}

func (c kindClient) getResource(ctx context.Context, name string) (view.Resource, error) {
	obj, err := c.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return view.Resource{}, err
	}
	r, _ := view.ResourceOf(obj)
	return r, nil
}

func (c kindClient) listResources(ctx context.Context, opts metav1.ListOptions) ([]view.Resource, error) {
	var found []view.Resource
	err := eachOf(ctx, c, c.chunk, opts, func(obj runtime.Object) {
		if r, ok := view.ResourceOf(obj); ok {
			found = append(found, r)
		}
	})
	return found, err
}

// patchResource patches a resource, and returns the version of the resource after the patch.
func (c kindClient) patchResource(ctx context.Context, name string, pt types.PatchType, data []byte) (version string, err error) {
	patched, err := c.Patch(ctx, name, pt, data, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return "", err
	}
	return patched.GetResourceVersion(), nil
}

// eachOf calls do for each object of a list that is requested in chunks.
func eachOf[L runtime.Object](ctx context.Context, c lister[L], chunk int64, opts metav1.ListOptions, do func(runtime.Object)) error {
	p := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, opts) })
	p.PageSize = chunk
	list, _, err := p.List(ctx, opts)
	if err != nil {
		return err
	}
	return meta.EachListItem(list, func(obj runtime.Object) error {
		do(obj)
		return nil
	})
}

// visitEach calls visit for each object of a list that is requested in chunks, chunk after chunk, until visit returns an error, and returns that error.
// No chunk is requested after it. An object may be visited twice if the list expires in between.
func visitEach[L runtime.Object](ctx context.Context, c lister[L], chunk int64, visit func(runtime.Object) error) error {
	p := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		list, err := c.List(ctx, opts)
		if err == nil {
			err = meta.EachListItem(list, visit)
		}
		return list, err
	})
	p.PageSize = chunk
	_, _, err := p.List(ctx, metav1.ListOptions{})
	return err
}

// clientOf returns the client of a kind in a namespace; in all for an empty one.
func (c *clients) clientOf(kind view.Kind, namespace string) kindClient {
	return kindClient{gentype.NewClientWithList(
		kind.Plural, c.app.AppV1().RESTClient(), scheme.ParameterCodec, namespace, kind.New, kind.NewList,
	), c.chunk}
}

// inWords returns an error of the API server as a user reads it.
func inWords(err error, verb, what, namespace string) error {
	where := " in " + namespace
	if namespace == "" {
		where = ""
	}
	if err == nil {
		return nil
	}
	err = withoutObjects{err}
	switch {
	case apierrors.IsForbidden(err) && !apierrors.IsInvalid(err):
		return fmt.Errorf("you may not %s %s%s%s: %w", verb, what, where, rightsHint(namespace), err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no %s%s: %w", what, where, err)
	}
	return fmt.Errorf("%s %s%s: %w", verb, what, where, err)
}

// rightsHint is the end of a problem that a right of the user solves, in a namespace, or in all for an empty one.
func rightsHint(namespace string) string {
	return fmt.Sprintf("; ask for this right, or see %q", view.PluginCommand(namespace, "check"))
}

// withoutObjects is an answer of the API server without the objects that it repeats, which may have secrets in them.
type withoutObjects struct{ error }

func (e withoutObjects) Error() string { return view.CleanText(message.OmitObjects(e.error.Error())) }

func (e withoutObjects) Unwrap() error { return e.error }

// refusalOf returns in a few words why a list could not be read, for a page or for a command.
func (c *clients) refusalOf(err error, namespace string) string {
	if c.isPage {
		return pageRefusal(err, namespace)
	}
	return refusalText(err, namespace)
}

// refusalText returns in a few words why a list could not be read.
func refusalText(err error, namespace string) string {
	if namespace == "" {
		namespace = "all namespaces"
	}
	switch {
	case apierrors.IsForbidden(err):
		return "you may not list them in " + namespace
	case apierrors.IsNotFound(err):
		return "the cluster does not have the kind"
	}
	return "they cannot be listed: " + view.CleanText(err.Error())
}

// pageRefusal is refusalText for a page, which has no address of the API server.
func pageRefusal(err error, namespace string) string {
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return refusalText(err, namespace)
	}
	return "they cannot be listed: " + view.ErrorText(err)
}
