//! Objectives and proposals by name, as a configuration file has them.

use candle_core::{DType, Tensor};
use ebm_core::{AnyObjective, AnyProposal, GaussianMixture, Objective, Proposal};

use crate::network::Network;
use crate::zoo::{flat, rng};

const PROPOSALS: [(&str, &str); 3] = [
    ("gaussian", "sigmas = [[0.1, 0.2], [0.8, 1.6]]"),
    ("shared_gaussian", "sigmas = [[0.1, 0.2], [0.8, 1.6]]"),
    ("uniform", "low = [-3.0, -2.0]\nhigh = [3.0, 2.0]"),
];

/// Every kind: its settings, whether it has a proposal by name, and its tables.
const OBJECTIVES: [(&str, &str, bool, &str); 16] = [
    ("ml_is", "num_samples = 8", true, ""),
    ("kld_is", "num_samples = 8", true, "[label]\nsigmas = [[0.1, 0.1]]"),
    ("kld_is", "num_samples = 8\nnormalize_weights = true", true, "[label]\nsigmas = [[0.1, 0.1]]"),
    ("nce", "num_samples = 8", true, ""),
    ("nce_plus", "num_samples = 8\nbeta = 0.1", false, "[proposal]\nsigmas = [[0.1, 0.2], [0.8, 1.6]]"),
    ("ml_mcmc", "num_samples = 8\nsteps = 3\nstep_size = 0.1", false, ""),
    ("sm", "derivatives = \"exact\"\ndirections = \"coordinates\"", false, ""),
    ("sm", "directions = \"coordinates\"", false, "[derivatives.differences]\nstep = 0.01"),
    ("dsm", "sigma = 0.2\nnum_samples = 8\nderivatives = \"exact\"\ndirections = \"coordinates\"", false, ""),
    ("dsm", "sigma = 0.2\nnum_samples = 8\nderivatives = \"exact\"", false, "[directions.random]\ncount = 2"),
    ("info_nce", "num_samples = 8", true, ""),
    ("info_nce", "num_samples = 8\ntemperature = 0.5", true, ""),
    ("snl", "num_samples = 8", true, ""),
    ("quality", "num_samples = 8\nwith_target = true", true, ""),
    ("quality", "num_samples = 8\nwith_target = false", true, ""),
    ("squared_quality", "num_samples = 8", true, ""),
];

/// The text of each objective with each proposal that it can have.
fn texts() -> Vec<String> {
    let mut texts = Vec::new();
    for (kind, settings, with_proposal, tables) in OBJECTIVES {
        let proposals = if with_proposal { &PROPOSALS[..] } else { &[("", "")] };
        for (proposal, fields) in proposals {
            let proposal =
                if with_proposal { format!("[proposal.{proposal}]\n{fields}\n") } else { String::new() };
            texts.push(format!("kind = \"{kind}\"\n{settings}\n{proposal}{tables}\n"));
        }
    }
    texts
}

#[test]
fn every_objective_reads_writes_and_computes() {
    let (network, x, y) = (Network::new(), Network::x(DType::F64), Network::y(DType::F64));
    let texts = texts();
    assert_eq!(texts.len(), 3 * 10 + 6);
    let mut losses = Vec::new();
    for text in texts {
        let objective: AnyObjective = toml::from_str(&text).unwrap_or_else(|error| panic!("{text}{error}"));
        let written = toml::to_string(&objective).unwrap();
        assert_eq!(toml::from_str::<AnyObjective>(&written).unwrap(), objective, "{written}");
        let kind = |text: &str| text.lines().find(|line| line.starts_with("kind")).map(str::to_owned);
        assert_eq!(kind(&written), kind(&text));
        let loss = objective.build(&mut rng(0)).unwrap().loss(&network, &x, &y, &mut rng(1)).unwrap();
        assert!(flat(&loss)[0].is_finite(), "{text}");
        losses.push(flat(&loss)[0]);
    }
    // Every name gives its own objective, and no setting is lost. One pair is equal: with a uniform q, whose
    // density is constant, NCE is InfoNCE.
    let mut distinct = losses.clone();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    assert_eq!(distinct.len(), losses.len() - 1, "{losses:?}");
}

#[test]
fn an_objective_by_name_is_the_objective() {
    let (network, x, y) = (Network::new(), Network::x(DType::F64), Network::y(DType::F64));
    let text =
        "kind = \"info_nce\"\nnum_samples = 8\n[proposal.uniform]\nlow = [-3.0, -2.0]\nhigh = [3.0, 2.0]\n";
    let named = toml::from_str::<AnyObjective>(text).unwrap().build(&mut rng(0)).unwrap();
    let proposal = ebm_core::Uniform::new(vec![-3.0, -2.0], vec![3.0, 2.0]).unwrap();
    let objective = ebm_core::InfoNce { proposal, num_samples: 8, temperature: 1.0 };
    let of = |loss: ebm_core::Result<candle_core::Tensor>| flat(&loss.unwrap());
    assert_eq!(
        of(named.loss(&network, &x, &y, &mut rng(1))),
        of(objective.loss(&network, &x, &y, &mut rng(1)))
    );
}

#[test]
fn unknown_keys_are_refused_everywhere() {
    for text in texts() {
        let mut places = vec![text.find('\n').unwrap() + 1];
        places.extend(
            text.match_indices("]\n")
                .filter(|(at, _)| {
                    let line = text[..*at].rfind('\n').map_or(0, |start| start + 1);
                    text[line..].starts_with('[')
                })
                .map(|(at, _)| at + 2),
        );
        for place in places {
            let with = format!("{}surplus = 1\n{}", &text[..place], &text[place..]);
            let error = toml::from_str::<AnyObjective>(&with).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("surplus"), "{with}{error}");
        }
    }
}

#[test]
fn unknown_names_and_missing_keys_are_refused() {
    let refused = |text: &str| toml::from_str::<AnyObjective>(text).unwrap_err().to_string();
    assert!(refused("kind = \"mle\"\nnum_samples = 1").contains("mle"));
    assert!(refused("num_samples = 1").contains("kind"));
    assert!(refused("kind = \"snl\"\nnum_samples = 1").contains("proposal"));
    assert!(
        refused("kind = \"snl\"\nnum_samples = -1\n[proposal.gaussian]\nsigmas = [[1.0]]").contains("-1")
    );
    assert!(refused("kind = \"ml_is\"\nnum_samples = 1\n[proposal.cauchy]\ngamma = 1.0").contains("cauchy"));
    assert!(
        refused("kind = \"ml_is\"\nnum_samples = 1\n[proposal.uniform]\nlow = [1.0]\nhigh = [0.0]")
            .contains("low")
    );
    assert!(
        refused("kind = \"sm\"\nderivatives = \"autograd\"\ndirections = \"coordinates\"")
            .contains("autograd")
    );
}

#[test]
fn every_proposal_reads_writes_and_draws() {
    let center = Network::y(DType::F64);
    for (name, fields) in PROPOSALS {
        let text = format!("[{name}]\n{fields}\n");
        let proposal: AnyProposal = toml::from_str(&text).unwrap();
        let written = toml::to_string(&proposal).unwrap();
        assert_eq!(toml::from_str::<AnyProposal>(&written).unwrap(), proposal, "{written}");
        let proposal = proposal.build(&mut rng(0)).unwrap();
        let (samples, log_q) = proposal.sample_with_log_prob(&center, 5, &mut rng(2)).unwrap();
        assert_eq!(flat(&samples), flat(&proposal.sample(&center, 5, &mut rng(2)).unwrap()));
        crate::zoo::assert_close(&flat(&log_q), &flat(&proposal.log_prob(&samples, &center).unwrap()), 1e-13);
    }
}

/// IoU-Net's pool of jitters and ATOM's perturbed boxes: boxes alone, and samples without a density.
#[test]
fn proposals_of_boxes_read_write_and_draw() {
    let center = Tensor::new(&[[0.5, 0.5, 3.0, 3.0]], &candle_core::Device::Cpu).unwrap();
    for text in ["quality = { iou_stratified = { pool = 20 } }", "quality = \"perturbed_boxes\""] {
        let table: std::collections::BTreeMap<String, AnyProposal> = toml::from_str(text).unwrap();
        assert_eq!(
            toml::from_str::<std::collections::BTreeMap<_, _>>(&toml::to_string(&table).unwrap()).unwrap(),
            table
        );
        let drawn =
            |seed| table["quality"].build(&mut rng(seed)).unwrap().sample(&center, 5, &mut rng(2)).unwrap();
        assert_eq!(drawn(0).dims(), [1, 5, 4]);
        assert_eq!(flat(&drawn(0)), flat(&drawn(0)));
    }
}

#[test]
fn regression_of_a_quality_has_no_proposal_of_a_density() {
    let kinds =
        [("ml_is", "", true), ("quality", "with_target = true\n", false), ("squared_quality", "", false)];
    for (kind, more, is_density) in kinds {
        let text = format!(
            "kind = \"{kind}\"\n{more}num_samples = 8\nproposal.gaussian = {{ sigmas = [0.1, 0.8], dim = 2 }}"
        );
        let objective: AnyObjective = toml::from_str(&text).unwrap();
        let mixture = Some(GaussianMixture::isotropic(&[0.1, 0.8], 2).unwrap());
        assert_eq!(objective.gaussian(), mixture, "{kind}");
        assert_eq!(objective.density_proposal(), mixture.filter(|_| is_density), "{kind}");
    }
}

#[test]
fn one_deviation_for_all_coordinates_is_written_once() {
    let short = "kind = \"ml_is\"\nnum_samples = 8\nproposal.gaussian = { sigmas = [0.1, 0.8], dim = 2 }";
    let objective: AnyObjective = toml::from_str(short).unwrap();
    let mixture = GaussianMixture::isotropic(&[0.1, 0.8], 2).unwrap();
    assert_eq!(objective.gaussian(), Some(mixture.clone()));
    assert!(toml::to_string(&objective).unwrap().contains("dim = 2"));
    assert_eq!(objective.with_gaussian(mixture.scaled(2.0).unwrap()).gaussian(), mixture.scaled(2.0).ok());
    for wrong in ["sigmas = [0.1]", "sigmas = [[0.1]]\ndim = 1", "sigmas = [0.1]\ndim = 0"] {
        assert!(toml::from_str::<GaussianMixture>(wrong).is_err(), "{wrong}");
    }
}
