package controllers

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/message"
)

// rightsPause is how often a namespace that is left out is looked at, where the options have no other time.
const rightsPause = time.Minute

// refusedAgain is how many times a refusal at the start has to be repeated, each refusedPause after the one before: an authorizer that fails for a
// moment, or a RoleBinding that is written again, refuses a manager with rights.
const (
	refusedAgain = 2
	refusedPause = 2 * time.Second
)

// leftOut are the watched namespaces in which the manager had no rights when it started. In the cache, one of them would keep the controllers from
// starting for all namespaces. A cache cannot get a namespace later: the manager works in the namespace after a restart with the rights there.
type leftOut struct {
	look       looker
	pause      time.Duration
	log        logr.Logger
	namespaces []string
}

var (
	_ manager.LeaderElectionRunnable = (*leftOut)(nil)
	_ watched                        = (*leftOut)(nil)
)

func newLeftOut(look looker, opts *Options, log logr.Logger) *leftOut {
	return &leftOut{look: look, pause: cmp.Or(opts.LookAgain, rightsPause), log: log}
}

// addNamespaces leaves out the suspected ones of the namespaces in which the manager may not list Deployments. It leaves out none if no namespace
// would be left: the manager is then not ready until it has its rights. It has a time of its own for its looks.
func (l *leftOut) addNamespaces(namespaces []string, suspected func(namespace string) bool) {
	if len(namespaces) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstLook)
	defer cancel()
	refusals := map[string]error{}
	for _, ns := range namespaces {
		if suspected(ns) {
			refusals[ns] = l.lookAt(ctx, ns)
		}
	}
	for again := 0; ; again++ {
		maps.DeleteFunc(refusals, func(_ string, err error) bool { return !apierrors.IsForbidden(err) })
		if len(refusals) == 0 || again == refusedAgain {
			break
		}
		sleepFor(ctx, refusedPause)
		for ns := range refusals {
			refusals[ns] = l.lookAt(ctx, ns)
		}
	}
	if !slices.ContainsFunc(namespaces, func(ns string) bool { return refusals[ns] == nil }) {
		return
	}
	l.namespaces = slices.Sorted(maps.Keys(refusals))
	for _, ns := range l.namespaces {
		l.logRefusal(ns, refusals[ns])
	}
}

// sleepFor waits for a time, or for the end of the context.
func sleepFor(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// lookAt lists Deployments in a namespace.
func (l *leftOut) lookAt(ctx context.Context, namespace string) error {
	return l.look(ctx, children.TypeOf(&appsv1.Deployment{}), namespace)
}

func (l *leftOut) logRefusal(namespace string, err error) {
	l.log.Info("The manager has no rights in a namespace: it works without the namespace until it has them and is restarted",
		"namespace", namespace, "refusal", message.Quote(err.Error()))
}

func (l *leftOut) has(namespace string) bool { return slices.Contains(l.namespaces, namespace) }

// remove returns the namespaces that are not left out.
func (l *leftOut) remove(namespaces []string) []string {
	return slices.DeleteFunc(slices.Clone(namespaces), l.has)
}

// Start implements manager.Runnable. It looks at the namespaces for the log and the metric alone, until the context ends: a right that comes and goes
// in one namespace is not to stop the work in all others.
func (l *leftOut) Start(ctx context.Context) error {
	if len(l.namespaces) == 0 {
		return nil
	}
	ticker := time.NewTicker(l.pause)
	defer ticker.Stop()
	given := map[string]bool{}
	for {
		watches.noteResult(l)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, ns := range l.namespaces {
			err := l.lookAt(ctx, ns)
			if ctx.Err() != nil {
				return nil
			}
			l.logAnswer(ns, err, given[ns])
			given[ns] = err == nil || given[ns] && !apierrors.IsForbidden(err)
		}
	}
}

// logAnswer logs the answer to a look at a namespace. Rights that were given before are no news.
func (l *leftOut) logAnswer(namespace string, err error, given bool) {
	switch {
	case apierrors.IsForbidden(err):
		l.logRefusal(namespace, err)
	case err != nil:
		l.log.Info("Cannot find out whether the manager has rights in a namespace that it was started without",
			"namespace", namespace, "error", message.Quote(err.Error()))
	case !given:
		l.log.Info("The manager has rights in a namespace that it was started without: restart its Deployment to have it work there",
			"namespace", namespace)
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a standby leaves out namespaces of its own.
func (l *leftOut) NeedLeaderElection() bool { return false }

// TypeDescription implements watched: the metric has Deployments as broken while a namespace is left out.
func (l *leftOut) TypeDescription() string { return "Deployment" }

// LastSyncResourceVersion implements watched.
func (l *leftOut) LastSyncResourceVersion() string { return "" }
