//! `conclave bench` as `cargo xtask bench` runs it: the JSON of web/src/bench/report.ts.

use std::process::Command;

use serde_json::Value;

/// Measures bundled members at a short prefix.
fn bench(args: &[&str]) -> Value {
    let common = "bench --json --prefixes 48 --segment-tokens 6 --repeats 2 --context 400";
    let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(common.split(' '))
        .args(args)
        .output()
        .expect("the tool starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn on_the_cpu_there_are_times_and_no_counts() {
    let report = bench(&[
        "--device",
        "cpu",
        "--ensembles",
        "1,2",
        "--drafting",
        "all,leader",
    ]);
    let (place, workload) = (&report["surroundings"], &report["workload"]);
    assert_eq!(
        (place["place"].as_str(), place["backend"].as_str()),
        (Some("native"), Some("cpu"))
    );
    assert!(place["kernels"].is_null());
    assert!(place["copyBytesPerSecond"].is_null() && workload["gpuBytes"].is_null());
    let members = workload["members"].as_array().unwrap();
    assert_eq!(members.len(), 3);
    for member in members {
        let step = &member["draftStep"];
        assert_eq!(step["ms"]["count"], 2);
        assert!(number(&step["ms"]["median"]) > 0.0);
        assert!(step["counts"].is_null() && member["cold"] == false);
        assert_eq!(member["verify"]["tokens"], 20, "no member drafted them");
        let [prompt, first] = [&member["prefill"]["ms"], &member["firstTokenMs"]]
            .map(|spread| number(&spread["median"]));
        assert!(
            first > prompt,
            "{first} ms to the first token, {prompt} of them the prompt's"
        );
    }
    let round = &workload["rounds"][0];
    assert_eq!(
        (&round["members"], &round["ms"]["count"]),
        (&2.into(), &4.into())
    );
    assert!(number(&round["firstSegmentMs"]["median"]) > number(&round["ms"]["median"]));
    // Each runs at most the last of its own drafted tokens more than it must.
    let (run, due) = (number(&round["tokensRun"]), number(&round["tokensDue"]));
    assert!(run >= 5.0 && run <= due + 1.0, "{run} of {due}");
    // One drafts and the other verifies: each runs half of what both would.
    let led = &workload["rounds"][1];
    assert_eq!(
        (&round["drafting"], &led["drafting"]),
        (&"all".into(), &"leader".into())
    );
    let (run, led_due) = (number(&led["tokensRun"]), number(&led["tokensDue"]));
    assert!(led_due <= 0.75 * due, "{led_due} of {due}");
    assert!(run >= 2.5 && run <= led_due + 1.0, "{run} of {led_due}");
}

#[test]
fn on_a_gpu_everything_asked_for_is_counted() {
    let report = bench(&["--device", "gpu", "--ensembles", "3"]);
    assert!(number(&report["surroundings"]["copyBytesPerSecond"]) > 1e6);
    let kernels = report["surroundings"]["kernels"].as_str().unwrap();
    assert!(!kernels.is_empty(), "the kernels that ran are reported");
    let workload = &report["workload"];
    let loaded = &workload["loaded"][0];
    let per_row = number(&loaded["kv"]) / number(&loaded["kvRow"]);
    assert_eq!(per_row, 400.0 + 512.0, "rows of the cache");
    for member in workload["members"].as_array().unwrap() {
        let step = &member["draftStep"];
        // Five steps are drafted with one read-back.
        assert_eq!(number(&step["counts"]["readbacks"]), 0.2);
        assert_eq!(number(&member["verify"]["counts"]["readbacks"]), 1.0);
        assert!(number(&step["dispatchesPerLayer"]) >= 6.0, "{step}");
        assert!(
            number(&step["microsecondsPerDispatch"]["median"]) > 0.0,
            "{step}"
        );
        assert_eq!(number(&step["counts"]["buffers"]), 0.0);
    }
    let round = &workload["rounds"][0];
    // One wait for all drafts, and one for all scores.
    assert_eq!(number(&round["counts"]["readbacks"]), 2.0);
    assert_eq!(round["members"], 3);
    assert!(number(&round["counts"]["dispatches"]) > 100.0);
    assert!(number(&workload["gpuBytes"]) > number(&loaded["weights"]));
}

#[test]
fn a_limit_leaves_each_measured_once_and_cold() {
    let report = bench(&[
        "--device",
        "cpu",
        "--ensembles",
        "2",
        "--limit-seconds",
        "0",
    ]);
    let workload = &report["workload"];
    for each in [&workload["members"][0], &workload["rounds"][0]] {
        assert_eq!(each["cold"], true, "{each}");
    }
    assert_eq!(workload["members"][0]["prefill"]["ms"]["count"], 1);
    assert_eq!(workload["rounds"][0]["firstSegmentMs"]["count"], 1);
}
