package webhooks

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"huolala.cn/app-operator/resource"
)

// manyErrors is a spec with 24,000 errors: mounts of volumes that there are not.
func manyErrors() any {
	var containers []any
	for i := range 60 {
		var mounts []any
		for j := range 400 {
			mounts = append(mounts, map[string]any{"name": "none", "mountPath": fmt.Sprint("/", j)})
		}
		containers = append(containers, map[string]any{"name": fmt.Sprint("c", i), "image": "a:1", "volumeMounts": mounts})
	}
	return map[string]any{"image": "a:1", "containers": containers}
}

// TestManyErrorsAtOnce sends 12 reviews with 24,000 errors each: all are refused, within bounds, and one of another namespace is not kept.
func TestManyErrorsAtOnce(t *testing.T) {
	s := newValidators(t, emptyWorld{}, emptyWorld{})
	handler := handlersOf(s)[validatorPath(resource.KindApp.Name)]
	req := creation(t, resource.KindApp.Name, manyErrors())
	alone := answerOf(t, handler, &req)
	t.Logf("%d KiB of spec: %d KiB allocated, %s", len(req.Object.Raw)>>10, alone.bytes>>10, alone.took)
	if alone.bytes > maxReview {
		t.Errorf("one review allocates %d KiB", alone.bytes>>10)
	}
	var reviews sync.WaitGroup
	for range 12 {
		reviews.Go(func() {
			answer := handler.Handle(t.Context(), req)
			if answer.Allowed || len(answer.Result.Message) > maxAnswer || !strings.Contains(answer.Result.Message, "more errors than") {
				t.Errorf("answer: %t, %.300s", answer.Allowed, answer.Result.Message)
			}
		})
	}
	reviews.Wait()
}

// TestReviewsTakeTurns has one namespace hold all that it may: another one has room at once, and what waits too long is admitted with a
// warning that says so.
func TestReviewsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newValidators(t, emptyWorld{}, emptyWorld{})
		s.patience = time.Second
		s.limits.reviews = newPaces(4, 2, rate{})
		for range 2 {
			if _, ok := s.limits.reviews.beginTurn(t.Context(), "shop", time.Second); !ok {
				t.Fatal("no room for the first ones")
			}
		}
		handler := handlersOf(s)[validatorPath(resource.KindApp.Name)]
		req := creation(t, resource.KindApp.Name, map[string]any{"image": "a:1", "minReadySeconds": 600})
		begin := time.Now()
		if answer := handler.Handle(t.Context(), req); !answer.Allowed || len(answer.Warnings) != 1 || answer.Warnings[0] != messageNotReviewed {
			t.Errorf("the third of a namespace: %+v", answer)
		}
		if waited := time.Since(begin); waited != s.patience {
			t.Errorf("the third of a namespace has waited for %s", waited)
		}
		begin, req.Namespace = time.Now(), "other"
		if answer := handler.Handle(t.Context(), req); answer.Allowed || time.Since(begin) > 0 {
			t.Errorf("the other namespace, after %s: %+v", time.Since(begin), answer)
		}
	})
}
