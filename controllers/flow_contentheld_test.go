package controllers

import (
	"strings"
	"testing"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestFlowContentAfterAHold changes content, and goes back to pods with the earlier content: by a hold, and by a rollback. The status lists no content
// meanwhile, without a request in each reconcile, and the pods get the present content afterwards.
func TestFlowContentAfterAHold(t *testing.T) {
	image := func(spec, image string) string { return strings.Replace(spec, "nginx:1", image, 1) }
	for name, c := range map[string]struct {
		spec      func(kindName string) string
		back, end func(w *world, kindName, spec string)
	}{
		"hold": {
			spec: following,
			back: func(w *world, kindName, _ string) {
				w.settle(kindName)
				w.run(kindName, w.replicaSet("web-2"))
				w.settle(kindName)
				w.annotate(kindName, appv1.AnnotationHold, "web-1")
			},
			end: func(w *world, kindName, _ string) { w.annotate(kindName, appv1.AnnotationHold, "") },
		},
		"rollback": {
			spec: func(kindName string) string {
				return strings.Replace(following(kindName), "{", `{"rollback":"OnStall",`, 1)
			},
			back: func(w *world, kindName, spec string) {
				w.setSpec(kindName, image(spec, "nginx:none"))
				w.settle(kindName)
				w.replicaSet("web-2")
				w.stall(kindName)
			},
			end: func(w *world, kindName, spec string) { w.setSpec(kindName, spec) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			forNames(t, heldKinds(), func(t *testing.T, kindName string) {
				spec := c.spec(kindName)
				w := newFollowing(t, kindName, spec)
				first := w.replicaSet("web-1")
				w.run(kindName, first)
				w.settle(kindName)
				before := w.recordedContent()
				w.setLevel("2")
				c.back(w, kindName, spec)
				w.settle(kindName)
				if now := w.recordedContent(); !now.Equal(before) {
					t.Errorf("the content of the held pods was %+v, and the record is %+v", before, now)
				}
				if listed := w.configOf(kindName); len(listed) > 0 {
					t.Errorf("the status lists the content %+v, which the held pods do not have", listed)
				}
				w.run(kindName, first)
				w.settle(kindName)
				w.requests = nil
				w.settle(kindName)
				w.wrote("idle")
				c.end(w, kindName, spec)
				w.settle(kindName)
				w.makeAvailable()
				w.settle(kindName)
				if now := w.recordedContent(); w.contentMark() == "" || now.Objects["ConfigMap/settings"] == before.Objects["ConfigMap/settings"] {
					t.Errorf("the pods have the content of before: %+v", now)
				}
				if listed := w.configOf(kindName); len(listed) == 0 {
					t.Error("the status does not list the content of the pods")
				}
			})
		})
	}
}
