//! What Prometheus gets.

use archive::Locality;

use crate::client::Server;

fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    let line = line.unwrap_or_else(|| panic!("no series {series} in:\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn metrics(server: &Server) -> String {
    let reply = server.get("/metrics");
    assert_eq!(reply.status, 200, "{}", reply.head);
    let kind = reply.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    String::from_utf8(reply.body).unwrap()
}

#[test]
fn requests_and_bytes_are_counted() {
    let server = Server::start();
    server.engine.add("/f", &[7; 1000], Locality::Online);
    for _ in 0..3 {
        assert_eq!(server.get("/data/f").status, 200);
    }
    assert_eq!(server.request("PUT", "/data/g", "", &[1; 300]).status, 201);
    assert_eq!(server.get("/data/none").status, 404);
    let text = metrics(&server);
    let requests = |method: &str, status: &str| {
        value(&text, &format!("kist_requests_total{{door=\"http\",method=\"{method}\",status=\"{status}\"}}"))
    };
    assert_eq!(requests("GET", "2xx"), 3.0);
    assert_eq!(requests("GET", "404"), 1.0);
    assert_eq!(requests("PUT", "2xx"), 1.0);
    assert_eq!(value(&text, "kist_request_seconds_count{door=\"http\",method=\"GET\"}"), 4.0);
    assert_eq!(value(&text, "kist_received_bytes_total{door=\"http\"}"), 300.0);
    assert!(value(&text, "kist_sent_bytes_total{door=\"http\"}") >= 3000.0);
    assert!(text.ends_with("# EOF\n"), "{text}");
}

/// `/healthz` said 200 whatever the engine could not do any more.
#[test]
fn what_refuses_changes_is_told_by_health_and_metrics() {
    let server = Server::start();
    let health = || server.raw("GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let gauge = |word: &str| value(&metrics(&server), &format!("kist_refuses_changes{{reason=\"{word}\"}}"));
    assert_eq!((health().status, gauge("catalogue-disk-full")), (200, 0.0));
    let problems = [
        archive::HealthProblem::CatalogueDiskFull(archive::Refused::Growth),
        archive::HealthProblem::AuditFull("/l".into()),
    ];
    for count in [1, 2] {
        *server.engine.problems.lock().unwrap() = problems[..count].to_vec();
        let reply = health();
        let text = String::from_utf8(reply.body.clone()).unwrap();
        assert!(reply.status == 503 && text.lines().count() == count, "{text}");
        assert!(text.starts_with("catalogue-disk-full: the file system of the catalogue is full"), "{text}");
        assert_eq!((gauge("catalogue-disk-full"), gauge("audit-full")), (1.0, count as f64 - 1.0));
        assert_eq!(gauge("catalogue-stopped"), 0.0);
    }
    server.engine.problems.lock().unwrap().clear();
    assert_eq!(health().status, 200);
}

#[test]
fn nobody_without_a_key_sees_them() {
    let server = Server::start();
    let reply = server.raw("GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_eq!(reply.status, 401);
}
