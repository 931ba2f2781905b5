package workload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestOwnerReferences checks that the API server here asks for the right to finalize an owner, as OpenShift does: the
// manager has it, and a user with all of its other rights cannot make a child.
func TestOwnerReferences(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	data, err := os.ReadFile(filepath.Join(harness.Root(), "config/rbac/role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(data, role); err != nil {
		t.Fatal(err)
	}
	role.Name = ns
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, "apps/finalizers")
	})
	lesser := "system:serviceaccount:" + ns + ":lesser"
	plane.Create(t, role, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "lesser"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "lesser"}},
	})
	t.Cleanup(func() { _ = plane.Client.Delete(context.Background(), role) })
	app := newApp(ns)
	plane.Create(t, app)

	makeChild := func(user string) error {
		cfg := rest.CopyConfig(plane.Config)
		cfg.Impersonate.UserName = user
		c, err := client.New(cfg, client.Options{Scheme: harness.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{"app": "web"}
		d := deployment(app)
		d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(app, appv1.GroupVersion.WithKind("App"))}
		d.Spec = appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			},
		}
		return c.Create(t.Context(), d, client.DryRunAll)
	}
	harness.Eventually(t, func() error { return makeChild(harness.ManagerUser) })
	// The authorizer may see the new role a moment later; what it refuses before that has another reason.
	harness.Eventually(t, func() error {
		if err := makeChild(lesser); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "blockOwnerDeletion") {
			return fmt.Errorf("a child made without the right to finalize its owner: %w", err)
		}
		return nil
	})
}

// TestManagerMayNot checks that the manager lacks rights that it has no use for.
func TestManagerMayNot(t *testing.T) {
	t.Parallel()
	for _, what := range []string{
		"list secrets", "watch secrets", "create configmaps", "patch configmaps", "create persistentvolumeclaims", "delete persistentvolumeclaims",
		"delete pods", "create pods", "patch pods",
		"patch nodes", "list namespaces", "create clusterroles.rbac.authorization.k8s.io", "bind roles.rbac.authorization.k8s.io",
		"create apps.app.huolala.cn", "update apps.app.huolala.cn", "patch apps.app.huolala.cn", "delete apps.app.huolala.cn",
		"impersonate users", "update serviceaccounts", "deletecollection deployments.apps", "* *",
	} {
		verb, resource, _ := strings.Cut(what, " ")
		resource, group, _ := strings.Cut(resource, ".")
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   harness.ManagerUser,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + harness.SystemNamespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: "default", Verb: verb, Group: group, Resource: resource,
			},
		}}
		plane.Create(t, review)
		if review.Status.Allowed {
			t.Errorf("the manager may %s: %s", what, review.Status.Reason)
		}
	}
}
