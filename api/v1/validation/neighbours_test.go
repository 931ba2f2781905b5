package validation

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestElder has two UnitedDeployments; exactly one of them holds the Deployment, whichever is asked.
func TestElder(t *testing.T) {
	united := func(name, deployment string, age time.Duration, going bool) appv1.UnitedDeployment {
		ud := appv1.UnitedDeployment{}
		ud.Name, ud.Spec.DeploymentName = name, deployment
		ud.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age))
		if going {
			ud.DeletionTimestamp = &metav1.Time{}
		}
		return ud
	}
	for name, c := range map[string]struct {
		a, b        appv1.UnitedDeployment
		wantA, want string
	}{
		"an older one":         {united("a", "x", time.Hour, false), united("b", "x", 0, false), "", "a"},
		"of one age":           {united("a", "x", 0, false), united("b", "x", 0, false), "", "a"},
		"another Deployment":   {united("a", "x", time.Hour, false), united("b", "y", 0, false), "", ""},
		"one that is going":    {united("a", "x", time.Hour, true), united("b", "x", 0, false), "", ""},
		"a younger, first one": {united("a", "x", 0, false), united("b", "x", time.Hour, false), "b", ""},
	} {
		all := []appv1.UnitedDeployment{c.a, c.b}
		if got := OldestClaimant(&c.a, all); got != c.wantA {
			t.Errorf("%s: the elder of a is %q, want %q", name, got, c.wantA)
		}
		if got := OldestClaimant(&c.b, all); got != c.want {
			t.Errorf("%s: the elder of b is %q, want %q", name, got, c.want)
		}
	}
}

// TestScaleConflict has all that can hold a Deployment, and the one that a UnitedDeployment has made itself.
func TestScaleConflict(t *testing.T) {
	ud := &appv1.UnitedDeployment{}
	ud.Name, ud.Spec.DeploymentName = "me", "x"
	for name, c := range map[string]struct {
		held ScaleOwners
		want string
	}{
		"nobody":               {ScaleOwners{}, ""},
		"an App":               {ScaleOwners{Controller: &metav1.OwnerReference{Kind: "App", Name: "me"}, OldestClaimant: "old"}, "Deployment x is owned by App me"},
		"another one":          {ScaleOwners{Controller: &metav1.OwnerReference{Kind: "UnitedDeployment", Name: "other"}}, "is owned by UnitedDeployment other"},
		"this one":             {ScaleOwners{Controller: &metav1.OwnerReference{Kind: "UnitedDeployment", Name: "me"}, OldestClaimant: "old"}, ""},
		"this one, and scaled": {ScaleOwners{Controller: &metav1.OwnerReference{Kind: "UnitedDeployment", Name: "me"}, Autoscaler: "hpa"}, "HorizontalPodAutoscaler hpa scales"},
		"an older one":         {ScaleOwners{OldestClaimant: "old", Autoscaler: "hpa"}, "UnitedDeployment old is older"},
		"an autoscaler of it":  {ScaleOwners{Autoscaler: "hpa"}, "HorizontalPodAutoscaler hpa scales Deployment x"},
	} {
		if got := ScaleConflict(ud, c.held); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
