BEGIN TRANSACTION;
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "about" VALUES('format','maxmahal-records-1');
CREATE TABLE chunks (
    evaluation INTEGER NOT NULL, stage INTEGER NOT NULL, number INTEGER NOT NULL, seconds REAL NOT NULL,
    forward INTEGER NOT NULL, backward INTEGER NOT NULL, queries INTEGER NOT NULL, device TEXT NOT NULL,
    PRIMARY KEY (evaluation, stage, number)
);
INSERT INTO "chunks" VALUES(1,0,0,1.06652479998956550844e-02,4,0,4,'cpu');
INSERT INTO "chunks" VALUES(1,0,1,2.59325500019258470274e-03,2,0,2,'cpu');
INSERT INTO "chunks" VALUES(1,1,0,2.71989409998241171706e-02,25,14,18,'cpu');
INSERT INTO "chunks" VALUES(1,1,1,9.87272900010793819092e-03,4,2,3,'cpu');
INSERT INTO "chunks" VALUES(1,2,0,2.47122539999509172048e-02,20,12,14,'cpu');
INSERT INTO "chunks" VALUES(1,3,0,3.43203100001119310036e-02,42,0,39,'cpu');
CREATE TABLE evaluations (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, data TEXT NOT NULL, suite TEXT NOT NULL, seed INTEGER NOT NULL,
    samples INTEGER NOT NULL, body TEXT NOT NULL, finished INTEGER NOT NULL DEFAULT 0, plane BLOB
);
INSERT INTO "evaluations" VALUES(1,'Classifier','made','old',0,6,'{"same": {"model": "ef13050097a817caa5810eb6c997eaea", "data": "cb427cc19257961520485a1fd837cfcf", "suite": {"name": "old", "version": 1, "about": "from an older version", "norm": "Linf", "epsilon": "8/255", "chunk": 4, "diagnose": true, "mend": true, "order": ["apgd", "carlini", "square"], "stages": {"apgd": {"name": "apgd", "title": "apgd", "scope": "survivors", "counts": true, "search": "fast", "eot": 1, "with_draws": true, "origin": "suite", "attack": "apgd", "objective": "margin", "steps": 4, "restarts": 1}, "carlini": {"name": "carlini", "title": "carlini", "scope": "all", "counts": false, "limit": 2, "search": "fast", "eot": 1, "with_draws": true, "origin": "suite", "attack": "carlini", "objective": "margin-over-all", "constants": "tracked", "steps": 6, "search_steps": 2, "learning_rate": 0.005, "initial_c": 0.01, "label_source": "true"}, "square": {"name": "square", "title": "square", "scope": "survivors", "counts": true, "search": "fast", "eot": 1, "with_draws": true, "origin": "suite", "attack": "square", "queries": 12}}}, "transfer": []}, "target": "a model passed from Python", "comparison": false, "chunk": 4, "radius": 0.03137254901960784, "class_names": ["class 0", "class 1", "class 2", "class 3"], "model": {"kind": "classifier", "parameters": 34, "loss": "", "backbone": "", "settings": {}, "table": "", "epoch": 0, "stochastic": false, "draws": 1}, "environment": {"versions": {"maxmahal": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6", "python": "3.11.7"}, "device": "cpu", "threads": 1, "commit": "", "command": "maxmahal evaluate ''Classifier=a model passed from Python'' --suite old --data made --seed 0 --out rec", "started": "2026-11-18T02:32:26+00:00"}, "training": []}',1,X'504B03042D000000000000002100F0EAB9AFFFFFFFFFFFFFFFFF080014006B696E642E6E707901001000A000000000000000A000000000000000934E554D5059010076007B276465736372273A20273C5538272C2027666F727472616E5F6F72646572273A2046616C73652C20277368617065273A2028292C207D20202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200A6600000065000000610000007400000075000000720000006500000073000000504B03042D0000000000000021006E99B228FFFFFFFFFFFFFFFF0A0014006F726967696E2E6E70790100100090000000000000009000000000000000934E554D5059010076007B276465736372273A20273C6638272C2027666F727472616E5F6F72646572273A2046616C73652C20277368617065273A2028322C292C207D2020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200A00000000000000000000000000000000504B03042D000000000000002100678C4C67FFFFFFFFFFFFFFFF08001400617865732E6E707901001000A000000000000000A000000000000000934E554D5059010076007B276465736372273A20273C6638272C2027666F727472616E5F6F72646572273A2046616C73652C20277368617065273A2028322C2032292C207D202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200A000000000000F03F00000000000000000000000000000000000000000000F03F504B03042D000000000000002100F6212CF8FFFFFFFFFFFFFFFF0B00140063656E746572732E6E707901001000C000000000000000C000000000000000934E554D5059010076007B276465736372273A20273C6638272C2027666F727472616E5F6F72646572273A2046616C73652C20277368617065273A2028342C2032292C207D202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200A0000000070B4E93F000000C0F060C63F000000C044C7B63F0000000094A3E3BF000000E039A5A73F000000C063E4F5BF000000008599D53F000000E0872DF03F504B01022D032D000000000000002100F0EAB9AFA0000000A00000000800000000000000000000008001000000006B696E642E6E7079504B01022D032D0000000000000021006E99B22890000000900000000A00000000000000000000008001DA0000006F726967696E2E6E7079504B01022D032D000000000000002100678C4C67A0000000A00000000800000000000000000000008001A6010000617865732E6E7079504B01022D032D000000000000002100F6212CF8C0000000C00000000B000000000000000000000080018002000063656E746572732E6E7079504B05060000000004000400DD0000007D0300000000');
CREATE TABLE findings (
    evaluation INTEGER NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (evaluation, name)
);
INSERT INTO "findings" VALUES(1,0,'randomness','{"check": "randomness", "title": "The same answer twice", "flagged": false, "sentence": "Asked twice, and in other company, the model answers the same, as it should.", "remedy": "", "adds": [], "numbers": {"differ": 0.0, "differ_in_other_company": 0.0, "predictions_differ": 0.0}}');
INSERT INTO "findings" VALUES(1,1,'zero-gradients','{"check": "zero-gradients", "title": "Gradients that are exactly zero", "flagged": false, "sentence": "The gradient is exactly zero for 0.0 % of the images by the cross-entropy and 0.0 % by the margin, so attacks have something to follow, as they should.", "remedy": "", "adds": [], "numbers": {"cross_entropy": 0.0, "margin": 0.0}}');
INSERT INTO "findings" VALUES(1,2,'gradient-direction','{"check": "gradient-direction", "title": "Gradients against what they foretell", "flagged": false, "sentence": "A small step against the gradient lowers the margin more than 8 random directions for 100.0 % of the images (by chance: 11.1 %), by 1.00 times what the gradient foretells: gradients mean something, as they should.", "remedy": "", "adds": [], "numbers": {"better_than_random": 1.0, "measured_over_foretold": 0.9999986290931702, "directions": 8}}');
INSERT INTO "findings" VALUES(1,3,'objective-gap','{"check": "objective-gap", "title": "Cross-entropy against margin", "flagged": false, "sentence": "PGD-20 leaves 50.0 % with the cross-entropy and 50.0 % with the margin: the choice of the objective hides nothing, as it should be.", "remedy": "", "adds": [], "numbers": {"cross_entropy": 0.5, "margin": 0.5, "steps": 20}}');
INSERT INTO "findings" VALUES(1,4,'binarization','{"check": "binarization", "title": "Planted adversarial examples", "flagged": false, "sentence": "Not applicable: only 6 of 6 adversarial examples could be planted.", "remedy": "", "adds": [], "numbers": {"planted": 6}}');
INSERT INTO "findings" VALUES(1,5,'black-box-wins','{"check": "black-box-wins", "title": "Black box against white box", "flagged": false, "sentence": "White-box attacks leave 50.0 % of the images standing; of all images, 300 queries of Square break another 0.0 %: who knows less does not break more, as it should be.", "remedy": "", "adds": [], "numbers": {"white_box": 0.5, "square": 0.0, "transfer": 0.0, "substitutes": 0, "sources": []}}');
INSERT INTO "findings" VALUES(1,6,'epsilon-growth','{"check": "epsilon-growth", "title": "Accuracy against epsilon", "flagged": false, "sentence": "With growing epsilon the accuracy falls to 0.0 % at epsilon 0.5, where every image can be made grey, as it should.", "remedy": "", "adds": [], "numbers": {"epsilons": [0.0, 0.00784313725490196, 0.01568627450980392, 0.03137254901960784, 0.06274509803921569, 0.17712297710801905, 0.5], "accuracies": [0.8333333333333334, 0.8333333333333334, 0.6666666666666666, 0.5, 0.16666666666666666, 0.0, 0.0]}}');
INSERT INTO "findings" VALUES(1,7,'still-falling','{"check": "still-falling", "title": "Accuracy against effort", "flagged": false, "sentence": "From 50 to 100 steps the accuracy goes from 50.0 % to 50.0 %, from 2 to 4 starts from 50.0 % to 50.0 %: more effort finds next to nothing more, as it should be.", "remedy": "", "adds": [], "numbers": {"steps": [25, 50, 100], "accuracy_by_steps": [0.5, 0.5, 0.5], "restarts": [1, 2, 4], "accuracy_by_restarts": [0.5, 0.5, 0.5]}}');
CREATE TABLE pictures (
    evaluation INTEGER NOT NULL, stage INTEGER NOT NULL, sample INTEGER NOT NULL, shape TEXT NOT NULL,
    clean BLOB NOT NULL, adversarial BLOB NOT NULL, PRIMARY KEY (evaluation, stage, sample)
);
INSERT INTO "pictures" VALUES(1,1,2,'[1, 4, 4]',X'E7E6E63ED1D0503FF4F3733FC6C5453FFFFE7E3F9F9E9E3EB0AF2F3FC1C0403FA5A4A43EC7C6C63ED9D8583FB2B1313FF4F3733FE9E8E83D9493133F9493133F',X'D7D6D63EC9C8483FECEB6B3FCECD4D3FF7F6763FAFAEAE3EB8B7373FC9C8483FB5B4B43EB7B6B63EE1E0603FBAB9393FFCFB7B3F9594143E9C9B1B3F9C9B1B3F');
INSERT INTO "pictures" VALUES(1,1,4,'[1, 4, 4]',X'B8B7373FE1E0E03D8988083E8180003F8180003FA5A4243FD5D4543E8685053F9998183EE9E8683FF5F4743F8988883D9F9E9E3E8584043FD3D2D23EA9A8283E',X'B0AF2F3FA0A0A03DD2D0D03D8988083FF2F0F03EADAC2C3FF5F4743E8E8D0D3FB9B8383EE1E0603FFDFC7C3FCAC8C83DAFAEAE3E8D8C0C3FE3E2E23EC9C8483E');
INSERT INTO "pictures" VALUES(1,2,0,'[1, 4, 4]',X'ADAC2C3FBDBC3C3EEBEAEA3EC1C0403F8786863EFCFB7B3FC4C3433FCFCECE3E9190103DD4D3533FA9A8A83DF3F2723F9190103EAFAEAE3E8D8C8C3ED9D8583F',X'06A1393F16EC723E563BE33EDC01313FCAA9673E0000803F16A42F3F0530B43EAF9C823BC8D75C3FF6088A3D88E7593F13FB1C3E8806883EA33C853ECCD6423F');
INSERT INTO "pictures" VALUES(1,2,1,'[1, 4, 4]',X'B1B0B03E8D8C0C3FE9E8683EC2C1413FE7E6663F9D9C1C3EAFAEAE3EAFAE2E3FB1B0B03EA3A2A23EA6A5253FC9C8C83D9B9A9A3E9190903E9190103D9594143F',X'3233073F056A1A3FFBCFB93ED3EC303FFE9C5D3F5EE9443E5AD0493E213E0D3FFF50943E38D4C53E13422D3F000000001565AC3E8FC6063EFF669E3C3DC1C73E');
CREATE TABLE points (
    evaluation INTEGER NOT NULL, stage INTEGER NOT NULL, sample INTEGER NOT NULL, x REAL NOT NULL, y REAL NOT NULL,
    PRIMARY KEY (evaluation, stage, sample)
) WITHOUT ROWID;
INSERT INTO "points" VALUES(1,0,0,1.07375383377075195312e-01,6.66233181953430175781e-01);
INSERT INTO "points" VALUES(1,0,1,-1.75016164779663085937e-01,-3.75255942344665527343e-01);
INSERT INTO "points" VALUES(1,0,2,-5.15050292015075683593e-01,2.3944377899169921875e-01);
INSERT INTO "points" VALUES(1,0,3,5.23616671562194824218e-01,2.52273917198181152343e-01);
INSERT INTO "points" VALUES(1,0,4,3.11954855918884277343e-01,-1.13220143318176269531e+00);
INSERT INTO "points" VALUES(1,0,5,7.03640818595886230468e-01,-1.0542761087417602539e+00);
INSERT INTO "points" VALUES(1,1,2,-5.29695272445678710937e-01,4.33856964111328125e-01);
INSERT INTO "points" VALUES(1,1,4,2.97309994697570800781e-01,-9.37788426876068115234e-01);
INSERT INTO "points" VALUES(1,2,0,0.316062331199646,2.69153237342834472656e-01);
INSERT INTO "points" VALUES(1,2,1,-1.10124349594116210937e-02,-1.15114569664001464843e+00);
CREATE TABLE records (
    evaluation INTEGER NOT NULL, stage INTEGER NOT NULL, sample INTEGER NOT NULL, label INTEGER NOT NULL,
    clean_prediction INTEGER NOT NULL, prediction INTEGER NOT NULL, right_before INTEGER NOT NULL,
    broken INTEGER NOT NULL, right_share REAL NOT NULL, distortion REAL, iterations INTEGER, forward INTEGER,
    backward INTEGER, queries INTEGER, broken_8bit INTEGER, PRIMARY KEY (evaluation, stage, sample)
) WITHOUT ROWID;
INSERT INTO "records" VALUES(1,0,0,3,3,3,1,0,1.0,NULL,0,1,0,1,NULL);
INSERT INTO "records" VALUES(1,0,1,1,1,1,1,0,1.0,NULL,0,1,0,1,NULL);
INSERT INTO "records" VALUES(1,0,2,1,1,1,1,0,1.0,NULL,0,1,0,1,NULL);
INSERT INTO "records" VALUES(1,0,3,0,0,0,1,0,1.0,NULL,0,1,0,1,NULL);
INSERT INTO "records" VALUES(1,0,4,2,2,2,1,0,1.0,NULL,0,1,0,1,NULL);
INSERT INTO "records" VALUES(1,0,5,3,2,2,0,1,0.0,NULL,0,1,0,1,NULL);
INSERT INTO "records" VALUES(1,1,0,3,3,3,1,0,1.0,NULL,4,7,4,5,NULL);
INSERT INTO "records" VALUES(1,1,1,1,1,1,1,0,1.0,NULL,4,7,4,5,NULL);
INSERT INTO "records" VALUES(1,1,2,1,1,3,1,1,0.0,0.0313725546002388,2,4,2,3,NULL);
INSERT INTO "records" VALUES(1,1,3,0,0,0,1,0,1.0,NULL,4,7,4,5,NULL);
INSERT INTO "records" VALUES(1,1,4,2,2,1,1,1,0.0,0.0313725546002388,2,4,2,3,NULL);
INSERT INTO "records" VALUES(1,2,0,3,3,0,1,1,0.0,2.12809041142463684082e-01,6,10,6,7,NULL);
INSERT INTO "records" VALUES(1,2,1,1,1,2,1,1,0.0,4.22450929880142211914e-01,6,10,6,7,NULL);
INSERT INTO "records" VALUES(1,3,0,3,3,3,1,0,1.0,NULL,12,14,0,13,NULL);
INSERT INTO "records" VALUES(1,3,1,1,1,1,1,0,1.0,NULL,12,14,0,13,NULL);
INSERT INTO "records" VALUES(1,3,3,0,0,0,1,0,1.0,NULL,12,14,0,13,NULL);
CREATE TABLE stages (
    evaluation INTEGER NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL,
    skipped TEXT NOT NULL, planned INTEGER, chunks INTEGER, PRIMARY KEY (evaluation, position)
);
INSERT INTO "stages" VALUES(1,0,'clean','{"title": "clean", "kind": "clean", "settings": {"search": "fast", "eot": 1, "with_draws": true, "threat": "", "seed": 0}, "threat": "", "scope": "all", "origin": "suite", "counts": true}','',6,2);
INSERT INTO "stages" VALUES(1,1,'apgd','{"title": "apgd", "kind": "apgd", "settings": {"search": "fast", "eot": 1, "with_draws": true, "objective": "margin", "steps": 4, "restarts": 1, "threat": "Linf 8/255", "seed": 0}, "threat": "Linf 8/255", "scope": "survivors", "origin": "suite", "counts": true}','',5,2);
INSERT INTO "stages" VALUES(1,2,'carlini','{"title": "carlini", "kind": "carlini", "settings": {"limit": 2, "search": "fast", "eot": 1, "with_draws": true, "objective": "margin-over-all", "constants": "tracked", "steps": 6, "search_steps": 2, "learning_rate": 0.005, "initial_c": 0.01, "label_source": "true", "threat": "", "seed": 0}, "threat": "", "scope": "all", "origin": "suite", "counts": false}','',2,1);
INSERT INTO "stages" VALUES(1,3,'square','{"title": "square", "kind": "square", "settings": {"search": "fast", "eot": 1, "with_draws": true, "queries": 12, "threat": "Linf 8/255", "seed": 0}, "threat": "Linf 8/255", "scope": "survivors", "origin": "suite", "counts": true}','',3,1);
CREATE UNIQUE INDEX identities ON evaluations (
    name, data, suite, seed, samples, json_extract(body, '$.same.suite.norm'), json_extract(body, '$.radius')
);
COMMIT;
