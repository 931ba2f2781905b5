package controllers

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"huolala.cn/app-operator/internal/budget"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/clusterkinds"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch,resourceNames=httproutes.gateway.networking.k8s.io;podmonitors.monitoring.coreos.com
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors,verbs=get;list;watch;create;patch;delete

// addOptionalKinds adds to the manager what watches the kinds that a cluster may lack, or that the manager may not list.
func addOptionalKinds(mgr ctrl.Manager, opts *Options, watched *watchSet, kept *budget.Budget) (*clusterkinds.Kinds, error) {
	var rows []*children.Type
	for i := range children.Types {
		if row := &children.Types[i]; watched.isApart(row) {
			rows = append(rows, row)
		}
	}
	found, err := clusterkinds.New(clusterkinds.Options{
		Config: mgr.GetConfig(), HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Namespaces: opts.Namespaces,
		FieldOwner: fieldOwner, WatchFailed: watches.noteFailure, Types: rows, Budget: kept, LookAgain: opts.LookAgain, Log: opts.Logger.WithName("optional"),
	})
	if err != nil {
		return nil, fmt.Errorf("optional kinds: %w", err)
	}
	return found, mgr.Add(found)
}
