use super::*;

#[test]
fn names_select_works_and_groups() {
    let names = |only: &[&str]| {
        let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
        select(works(false, true), &only).map(|works| works.iter().map(|work| work.name).collect::<Vec<_>>())
    };
    assert_eq!(names(&["conv"]).unwrap(), ["conv-forward", "conv-backward"]);
    assert_eq!(
        names(&["resnet18", "head-100"]).unwrap(),
        ["resnet18", "head-100-forward", "head-100-backward"]
    );
    assert_eq!(names(&[]).unwrap().len(), works(true, true).len());
    let error = names(&["conv", "resnet"]).unwrap_err().to_string();
    assert!(error.contains("\"resnet\"") && error.contains("resnet50-b1"), "{error}");
}

#[test]
fn names_differ_and_own_peers_exist() {
    for works in [false, true].map(|gpu| works(false, gpu)) {
        check_names(&works);
    }
}

fn check_names(works: &[Work]) {
    for (i, work) in works.iter().enumerate() {
        assert!(works[..i].iter().all(|other| other.name != work.name), "{}", work.name);
        let exists = |name| works.iter().any(|other| other.name == name);
        assert!(work.peers.iter().filter_map(|peer| peer.ours).all(exists), "{}", work.name);
    }
}

#[test]
fn the_script_has_a_function_for_each_task() {
    let compared = |work: &Work| work.peers.iter().any(|peer| peer.ours.is_none());
    let all = [false, true].into_iter().flat_map(|gpu| works(false, gpu));
    for work in all.filter(compared) {
        let task = serde_json::to_value(work.task).unwrap();
        let mut arguments: Vec<&str> =
            task.as_object().unwrap().keys().map(String::as_str).filter(|key| *key != "task").collect();
        arguments.extend(work.task.pictures().map(|_| "pictures"));
        let definition = format!("def {}(form, ", task["task"].as_str().unwrap());
        let line = crate::peer::SCRIPT.lines().find(|line| line.starts_with(&definition)).unwrap();
        let (_, rest) = line.split_once("(form, ").unwrap();
        let mut expected: Vec<&str> = rest.trim_end_matches("):").split(", ").collect();
        expected.sort_unstable();
        arguments.sort_unstable();
        assert_eq!(arguments, expected, "{line}");
    }
}
