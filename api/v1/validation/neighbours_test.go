package validation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestElder has two UnitedDeployments; exactly one of them holds the Deployment, whichever is asked.
func TestElder(t *testing.T) {
	united := func(name string, age time.Duration, going bool) *metav1.ObjectMeta {
		ud := &metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age))}
		if going {
			ud.DeletionTimestamp = &metav1.Time{}
		}
		return ud
	}
	for name, c := range map[string]struct {
		a, b        *metav1.ObjectMeta
		wantA, want string
	}{
		"an older one":         {united("a", time.Hour, false), united("b", 0, false), "", "a"},
		"of one age":           {united("a", 0, false), united("b", 0, false), "", "a"},
		"one that is going":    {united("a", time.Hour, true), united("b", 0, false), "", ""},
		"a younger, first one": {united("a", 0, false), united("b", time.Hour, false), "b", ""},
	} {
		all := slices.Values([]*metav1.ObjectMeta{c.a, c.b})
		if got := OldestClaimant(c.a, all); got != c.wantA {
			t.Errorf("%s: the elder of a is %q, want %q", name, got, c.wantA)
		}
		if got := OldestClaimant(c.b, all); got != c.want {
			t.Errorf("%s: the elder of b is %q, want %q", name, got, c.want)
		}
	}
}

// TestOldestClaimantCopiesNothing has a thousand UnitedDeployments of one Deployment: each asks for the oldest without an allocation.
func TestOldestClaimantCopiesNothing(t *testing.T) {
	all := make([]*metav1.ObjectMeta, 1000)
	for i := range all {
		all[i] = &metav1.ObjectMeta{Name: fmt.Sprintf("u-%04d", i)}
	}
	oldest := ""
	allocations := testing.AllocsPerRun(10, func() { oldest = OldestClaimant(all[500], slices.Values(all)) })
	if oldest != "u-0000" || allocations > 2 {
		t.Errorf("the oldest is %q, with %v allocations", oldest, allocations)
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
