package view

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// beyondFloat is the first whole number that a floating-point number does not have.
const beyondFloat = 1<<53 + 1

// TestDecodeFields has a number that a floating-point number would change, a value without fields, and a value without a JSON form.
func TestDecodeFields(t *testing.T) {
	spec := appv1.AppSpec{}
	spec.TerminationGracePeriodSeconds = ptr.To[int64](beyondFloat)
	fields, err := DecodeFields(spec)
	if got := fields["terminationGracePeriodSeconds"]; err != nil || got != json.Number("9007199254740993") {
		t.Errorf("%v, %v", got, err)
	}
	if fields, err := DecodeFields(struct{}{}); err != nil || fields == nil || len(fields) > 0 {
		t.Errorf("of nothing: %v, %v", fields, err)
	}
	for _, value := range []any{make(chan int), "text"} {
		if _, err := DecodeFields(value); err == nil {
			t.Errorf("%T has fields", value)
		}
	}
}

// TestVerifyComparesLargeNumbers has two numbers that are the same as floating-point numbers: they differ, and both are shown in full.
func TestVerifyComparesLargeNumbers(t *testing.T) {
	pod := func(seconds int64) corev1.PodSpec { return corev1.PodSpec{ActiveDeadlineSeconds: &seconds} }
	v := &verifying{}
	v.compareTrees("Deployment web", "spec", pod(beyondFloat-1), pod(beyondFloat))
	want := Difference{"Deployment web", "spec.activeDeadlineSeconds", "9007199254740992", "9007199254740993"}
	if len(v.Differences) != 1 || v.Differences[0] != want {
		t.Errorf("the differences are %v", v.Differences)
	}
}
