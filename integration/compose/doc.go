// Package compose is what surrounds a node in docker-compose.yml: the configuration of Prometheus with its alerts, and
// Grafana's with the dashboard. No engine runs containers where the tests run, so they read the files as strictly as an
// engine would, hold them against what firn knows and measures, and (under the build tag integration) start the same
// configuration as processes and use it through both listeners. Nothing imports it.
package compose
