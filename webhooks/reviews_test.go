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

// manyErrors is a spec with 24,000 errors: mounts of a volume that there is not.
func manyErrors(volume string) any {
	var containers []any
	for i := range 60 {
		var mounts []any
		for j := range 400 {
			mounts = append(mounts, map[string]any{"name": volume, "mountPath": fmt.Sprint("/", j)})
		}
		containers = append(containers, map[string]any{"name": fmt.Sprint("c", i), "image": "a:1", "volumeMounts": mounts})
	}
	return map[string]any{"image": "a:1", "containers": containers}
}

// TestManyErrorsAtOnce sends 12 reviews with 24,000 errors each: all are refused, within bounds, and one of another namespace is not kept. Where some
// AppDefaults can have the volume, and are not known, all are admitted. The rules then look at the whole of the spec, as they do at a valid one.
func TestManyErrorsAtOnce(t *testing.T) {
	for volume, allowed := range map[string]bool{"No volume": false, "none": true} {
		most := uint64(maxReview)
		if allowed {
			most *= 2
		}
		s := newValidators(t, emptyWorld{}, emptyWorld{})
		handler := handlersOf(s)[validatorPath(resource.KindApp.Name)]
		req := creation(t, resource.KindApp.Name, manyErrors(volume))
		alone := answerOf(t, handler, &req)
		t.Logf("%s: %d KiB of spec: %d KiB allocated, %s", volume, len(req.Object.Raw)>>10, alone.bytes>>10, alone.took)
		if alone.bytes > most {
			t.Errorf("%s: one review allocates %d KiB", volume, alone.bytes>>10)
		}
		var reviews sync.WaitGroup
		for range 12 {
			reviews.Go(func() {
				answer := handler.Handle(t.Context(), req)
				switch {
				case answer.Allowed != allowed:
					t.Errorf("%s: allowed is %t: %q", volume, answer.Allowed, answer.Warnings)
				case !allowed && (len(answer.Result.Message) > maxAnswer || !strings.Contains(answer.Result.Message, "more errors than")):
					t.Errorf("%s: %.300s", volume, answer.Result.Message)
				}
			})
		}
		reviews.Wait()
	}
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
		req := creation(t, resource.KindApp.Name, map[string]any{"image": "a:1", "minReadySeconds": 600, "progressDeadlineSeconds": 600})
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
