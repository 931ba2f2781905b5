#!/usr/bin/env bash
# A whole Kubernetes on this machine, the operator in it, and the samples of config/samples: shows
# what becomes of them, and stays up until Ctrl-C. With DEMO_EXIT=1 it ends by itself; its status
# reports whether all of them turned Ready.
#
# The manager runs as a process of this machine, but as the ServiceAccount that it has in a cluster:
# it has the rights of the generated role here, and no more.
set -euo pipefail
cd "$(dirname "$0")/.."

exit_when_shown=${DEMO_EXIT:-}
namespace=default # of the samples
account=system:serviceaccount:app-operator-system:app-operator-controller-manager
ours=app.kubernetes.io/managed-by=app-operator

bold='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; fi

say() { printf '\n%s==> %s%s\n' "$bold" "$*" "$plain"; }
show() {
  printf '\n%s$ %s%s\n' "$bold" "$*" "$plain"
  "$@"
}

# --- the two processes, and their end ------------------------------------------------------------

tmp=$(mktemp -d "${TMPDIR:-/tmp}/app-operator-demo.XXXXXX")
cluster='' manager=''

alive() { [ -n "$1" ] && kill -0 "$1" 2>/dev/null; }

stop() { # PID
  if alive "$1"; then
    kill -TERM "$1" || true
    wait "$1" || true
  fi
} 2>/dev/null

# ended NAME PID LOG: says so if that process has ended by itself.
ended() {
  if [ -z "$2" ] || alive "$2"; then return 1; fi
  say "The $1 ended. The end of its log:"
  tail -n 20 "$3"
} >&2

clean_up() {
  trap '' INT TERM # to the end, even if the user is impatient
  if ! ended cluster "$cluster" "$tmp/cluster.log"; then
    ended manager "$manager" "$tmp/manager.log" || true
  fi
  stop "$manager"
  if [ -n "$cluster" ]; then
    # Not just a signal: this also removes the files of one that was killed.
    "$assets/cluster" down --name "demo-$$" >/dev/null 2>&1 || true
  fi
  rm -rf "$tmp"
}

trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# apart STDOUT STDERR COMMAND...: in the background and in a process group of its own, so that the
# terminal's Ctrl-C reaches this script alone, and it is this script that stops the rest, in order.
apart() {
  set -m
  "${@:3}" >"$1" 2>"$2" &
  set +m
}

# wait_both [PID]: until the process PID ends; if the cluster or the manager does so first, all is
# over (and clean_up says which it was).
wait_both() {
  while [ $# = 0 ] || alive "$1"; do
    if ! alive "$cluster" || ! alive "$manager"; then exit 1; fi
    wait -n "$cluster" "$manager" "$@" || true
  done
}

# meanwhile COMMAND...: for one that takes time; in the foreground it would hold the traps back.
meanwhile() {
  "$@" &
  wait_both $!
  wait $!
}

# --- up ------------------------------------------------------------------------------------------

say 'Building Kubernetes (minutes the first time, then it is cached) and the manager'
assets=$(hack/cluster/build.sh)
make --no-print-directory bin/manager kubectl-happ
export PATH=$assets:$PWD/bin:$PATH KUBECONFIG=$tmp/kubeconfig
export KUBECACHEDIR=$tmp/cache KUBERC=off # kubectl neither writes into the user's ~/.kube, nor takes defaults from there

say 'Starting a cluster with three simulated nodes'
began=$SECONDS
mkfifo "$tmp/ready"
apart "$tmp/ready" "$tmp/cluster.log" \
  "$assets/cluster" up --nodes 3 --name "demo-$$" --kubeconfig "$KUBECONFIG"
cluster=$!
# One line when it is ready, none if it ends before.
exec 3<"$tmp/ready"
read -r -u 3 _ || exit 1
show kubectl get nodes

say 'Installing the definitions and the RBAC rules'
kubectl apply --server-side -k config/local
kubectl wait --for=condition=Established --timeout=30s -f config/crd/bases >/dev/null

# The API server finds no manager outside of the cluster by the name of a Service, but by an address. Without openssl, there are
# no webhooks, and so no plan.
webhook_port=$((20000 + $$ % 10000))
while (exec 4<>"/dev/tcp/127.0.0.1/$webhook_port") 2>/dev/null; do webhook_port=$((20000 + RANDOM % 10000)); done
plans=false webhooks=()
if command -v openssl >/dev/null; then
  mkdir "$tmp/webhook"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1 \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$tmp/webhook/tls.key" -out "$tmp/webhook/tls.crt" 2>/dev/null
  webhooks=("--webhook-cert-dir=$tmp/webhook" "--webhook-port=$webhook_port")
  plans=true authority=$(base64 <"$tmp/webhook/tls.crt" | tr -d '\n')
  sed -e '/^    service:$/d' -e '/^      name: webhook-service$/d' -e '/^      namespace: system$/d' \
    -e "s#^      path: \(.*\)#    caBundle: $authority\n    url: https://127.0.0.1:$webhook_port\1#" \
    config/webhook/manifests.yaml | kubectl apply -f - >/dev/null
fi

say "Starting the manager as $account"
sed "s/^\( *\)user:\$/\1user:\n\1  as: $account/" "$KUBECONFIG" >"$tmp/manager.kubeconfig"
apart "$tmp/manager.log" "$tmp/manager.log" \
  env KUBECONFIG="$tmp/manager.kubeconfig" POD_NAMESPACE=app-operator-system ENABLE_WEBHOOKS=$plans bin/manager \
  --metrics-bind-address=0 --health-probe-bind-address=0 "${webhooks[@]}"
manager=$!

# Owned by another tool; the sample of a UnitedDeployment holds its number of pods.
show kubectl apply -f config/samples/example-deployment.yaml
show kubectl apply -k config/samples
mapfile -t samples < <(kubectl get -k config/samples -o name)
ready=true
meanwhile kubectl wait --for=condition=Ready --timeout=60s -n "$namespace" "${samples[@]}" || ready=false
took=$((SECONDS - began))

# --- what came of it -----------------------------------------------------------------------------

for sample in "${samples[@]}"; do
  show kubectl get -n "$namespace" "$sample" -o wide
  show kubectl events -n "$namespace" --for "$sample"
done
show kubectl get deployments,statefulsets,services,pods -n "$namespace" -l "$ours"

if ! $ready; then
  say 'Not all of them are Ready. The end of the manager'\''s log:'
  tail -n 20 "$tmp/manager.log"
  if [ -n "$exit_when_shown" ]; then exit 1; fi
fi

service=$(kubectl get services -n "$namespace" -l "$ours" -o name | sed -n 1p)
if [ -n "$service" ]; then
  say 'A Service is deleted by mistake'
  columns=custom-columns=NAME:.metadata.name,UID:.metadata.uid
  show kubectl get -n "$namespace" "$service" -o "$columns"
  show kubectl delete -n "$namespace" "$service"
  meanwhile kubectl wait --for=create --timeout=30s -n "$namespace" "$service" >/dev/null
  show kubectl get -n "$namespace" "$service" -o "$columns"
  echo 'It is back: another one, of the same name.'
fi

if $ready && kubectl get -n "$namespace" task/nginx-report >/dev/null 2>&1; then
  say 'A run of a Task, started by hand'
  show kubectl create job -n "$namespace" nginx-report-now --from=cronjob/nginx-report
  meanwhile kubectl happ wait -n "$namespace" task/nginx-report >/dev/null
  show kubectl get -n "$namespace" task/nginx-report
  show kubectl happ history -n "$namespace" task/nginx-report
fi

if $ready && kubectl get -n "$namespace" app/nginx-app >/dev/null 2>&1; then
  if $plans; then
    say 'What another image would do'
    show kubectl happ plan -n "$namespace" nginx-app --set image=nginx:1.17.0 || [ $? = 1 ] # Something would change.
  fi
  say 'An image that cannot be pulled'
  show kubectl patch -n "$namespace" app/nginx-app --type=merge -p '{"spec":{"image":"imagepullbackoff.test/nginx"}}'
  meanwhile kubectl happ wait -n "$namespace" nginx-app --grace=2s >/dev/null 2>&1 || true
  show kubectl happ tree -n "$namespace" nginx-app
  show kubectl happ why -n "$namespace" nginx-app
  show kubectl happ history -n "$namespace" nginx-app
  show kubectl happ rollback -n "$namespace" nginx-app --yes
  meanwhile kubectl happ wait -n "$namespace" nginx-app >/dev/null

  say 'A change runs in a canary first, and is promoted'
  show kubectl patch -n "$namespace" app/nginx-app --type=merge -p '{"spec":{"canary":{},"image":"nginx:1.17.0"}}'
  meanwhile kubectl happ wait -n "$namespace" nginx-app --for=canary >/dev/null
  show kubectl happ tree -n "$namespace" nginx-app
  show kubectl happ promote -n "$namespace" nginx-app --yes
  meanwhile kubectl happ wait -n "$namespace" nginx-app >/dev/null
  show kubectl get -n "$namespace" app/nginx-app

  say 'A canary that cannot start goes back by itself'
  show kubectl patch -n "$namespace" app/nginx-app --type=merge \
    -p '{"spec":{"rollback":"OnStall","progressDeadlineSeconds":5,"image":"imagepullbackoff.test/nginx"}}'
  meanwhile kubectl wait -n "$namespace" app/nginx-app --for='jsonpath={.status.conditions[?(@.type=="Applied")].reason}=RolledBack' --timeout=60s >/dev/null
  show kubectl happ why -n "$namespace" nginx-app

  say 'The App as it was'
  show kubectl patch -n "$namespace" app/nginx-app --type=json -p '[{"op":"replace","path":"/spec/image","value":"nginx:1.16.1"},
    {"op":"remove","path":"/spec/canary"},{"op":"remove","path":"/spec/rollback"},{"op":"remove","path":"/spec/progressDeadlineSeconds"}]'
  meanwhile kubectl happ wait -n "$namespace" nginx-app >/dev/null
fi

say "Ready $took seconds after the start of the cluster"
if [ -n "$exit_when_shown" ]; then exit; fi

# --- until Ctrl-C --------------------------------------------------------------------------------

cat <<END

Try it yourself, in another terminal:

  export KUBECONFIG=$KUBECONFIG PATH=$assets:$PWD/bin:\$PATH

  kubectl get app-operator                                # all kinds
  kubectl get app --watch                                 # the truth, as it changes
  kubectl happ list                                       # the same, with causes; see also kubectl happ --help
  kubectl scale app/nginx-app --replicas=3
  kubectl patch app/nginx-app --type=merge -p '{"spec":{"image":"nginx:1.17.0"}}'
  kubectl set image deployment/nginx-app '*=busybox'      # drift: repaired at once
  kubectl describe app/nginx-app                          # conditions, figures and events
  kubectl explain app.spec
  kubectl patch mbox/modelbox-sample --type=merge -p '{"spec":{"image":"nginx:1.17.0"}}'
  kubectl get replicasets --watch                         # 30% at a time
  kubectl scale deployment/example-deployment --replicas=5  # held at two: repaired at once
  kubectl scale hud/example-united-deployment --replicas=3
  kubectl create job report --from=cronjob/nginx-report     # a run of the Task, with the pod of the App
  kubectl happ suspend task/nginx-report

An image that never comes up (any of imagepullbackoff.test, crashloopbackoff.test and
oomkilled.test fails here as it would in life):

  kubectl patch app/nginx-app --type=merge -p '{"spec":{"image":"imagepullbackoff.test/nginx"}}'
  kubectl get app/nginx-app -o jsonpath='{.status.conditions[?(@.type=="Ready")].message}{"\n"}'

And the end of it all:

  kubectl delete -k config/samples

The manager's log: $tmp/manager.log
END
say 'Ctrl-C ends the demo and removes everything'
trap 'exit 0' INT TERM
wait_both
